// Code to copy, in the language that was chosen last.
import { Tabs } from "radix-ui";
import { useState } from "react";
import { key } from "../api/client";
import { type Language, LANGUAGE_WORDS, NEEDS, type Where } from "../lib/snippets";
import { Copy, Panel } from "./basics";

const CHOSEN = "duly.language";

function remembered(): string | null {
  try {
    return localStorage.getItem(CHOSEN);
  } catch {
    return null;
  }
}

export function Snippets(props: { title: string; note?: string; languages: readonly Language[]; code: (language: Language, where: Where) => string }) {
  const [chosen, setChosen] = useState(remembered);
  const language = props.languages.find((one) => one === chosen) ?? props.languages[0] ?? "curl";
  const where = { origin: location.origin, key: key.get() !== null };
  const code = props.code(language, where);
  const choose = (next: string) => {
    setChosen(next);
    try {
      localStorage.setItem(CHOSEN, next);
    } catch {
      // It lasts until the page is closed, then.
    }
  };
  return (
    <Panel title={props.title} note={props.note} actions={<Copy text={code} />}>
      <Tabs.Root value={language} onValueChange={choose} className="stack tight">
        <Tabs.List className="choices" aria-label={`${props.title}: language`}>
          {props.languages.map((one) => (
            <Tabs.Trigger key={one} value={one}>
              {LANGUAGE_WORDS[one]}
            </Tabs.Trigger>
          ))}
        </Tabs.List>
        <Tabs.Content value={language} className="stack tight" tabIndex={-1}>
          <pre className="code snippet" tabIndex={0} aria-label={`${props.title}, ${LANGUAGE_WORDS[language]}`} data-testid="snippet" data-language={language}>
            {code}
          </pre>
          {NEEDS[language] && (
            <p className="small muted">
              It needs <code>{NEEDS[language]}</code>
            </p>
          )}
        </Tabs.Content>
      </Tabs.Root>
    </Panel>
  );
}
