import js from "@eslint/js";
import hooks from "eslint-plugin-react-hooks";
import ts from "typescript-eslint";

export default ts.config(
  { ignores: ["dist", "src/api/schema.d.ts", "node_modules"] },
  js.configs.recommended,
  ...ts.configs.strict,
  {
    files: ["src/**/*.{ts,tsx}"],
    plugins: { "react-hooks": hooks },
    rules: {
      "react-hooks/rules-of-hooks": "error",
      "react-hooks/exhaustive-deps": "error",
      // Names and outputs come from strangers: what they wrote is shown as text, always.
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "Show it as text." },
        { selector: "MemberExpression[property.name=/^(innerHTML|outerHTML)$/]", message: "Show it as text." },
      ],
    },
  },
  {
    files: ["**/*.mjs", "*.js", "public/*.js"],
    languageOptions: {
      globals: Object.fromEntries(
        [
          "process", "console", "URL", "fetch", "setTimeout", "clearTimeout", "setInterval", "clearInterval", "Buffer", "performance", "document",
          "window", "localStorage", "PerformanceObserver", "MutationObserver", "AbortController", "requestAnimationFrame",
        ].map((name) => [name, "readonly"]),
      ),
    },
  },
);
