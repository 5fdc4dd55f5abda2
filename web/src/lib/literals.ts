// JSON as a literal of a language, so that code made of it runs as it is. Text comes from whoever fills in a
// form: nothing in it may end a string or begin anything else.
import type { Json } from "./patch";

export interface Style {
  indent: string;
  none: string;
  yes: string;
  no: string;
  text: (text: string) => string;
  number: (n: number) => string;
  key: (name: string) => string;
}

export function literal(value: Json, style: Style, depth = 0): string {
  if (value === null) return style.none;
  if (typeof value === "boolean") return value ? style.yes : style.no;
  if (typeof value === "number") return style.number(value);
  if (typeof value === "string") return style.text(value);
  const [inner, outer] = [style.indent.repeat(depth + 1), style.indent.repeat(depth)];
  const lines = (list: string[], [open, close]: [string, string]) =>
    list.length === 0 ? open + close : `${open}\n${list.map((one) => `${inner}${one},\n`).join("")}${outer}${close}`;
  if (Array.isArray(value)) return lines(value.map((one) => literal(one, style, depth + 1)), ["[", "]"]);
  const pairs = Object.entries(value).map(([name, one]) => `${style.key(name)}: ${literal(one, style, depth + 1)}`);
  return lines(pairs, ["{", "}"]);
}

/** What is not seen, turns the direction of a line, or is half of a pair is written as a number. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

function quoted(text: string, code: (point: number) => string): string {
  const body = text
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    .replaceAll("\n", "\\n")
    .replaceAll("\t", "\\t")
    .replace(UNSEEN, (letter) => code(letter.codePointAt(0) ?? 0));
  return `"${body}"`;
}

const hex = (point: number, digits: number) => point.toString(16).padStart(digits, "0");
const short = (point: number) => `\\u${hex(point, 4)}`;
const braced = (point: number) => `\\u{${hex(point, 1)}}`;
/** The last letter of the sixteen bits that other escapes know. */
const WIDE = 0xffff;
const json = (n: number) => JSON.stringify(n);

export const PYTHON: Style = {
  indent: "    ",
  none: "None",
  yes: "True",
  no: "False",
  text: (text) => quoted(text, (point) => (point > WIDE ? `\\U${hex(point, 8)}` : short(point))),
  number: json,
  key: (name) => PYTHON.text(name),
};

export const TYPESCRIPT: Style = {
  indent: "  ",
  none: "null",
  yes: "true",
  no: "false",
  text: (text) => quoted(text, (point) => (point > WIDE ? braced(point) : short(point))),
  number: json,
  // A bare __proto__ would be the object's prototype and no field.
  key: (name) => (name === "__proto__" ? `["__proto__"]` : /^[A-Za-z_$][\w$]*$/.test(name) ? name : TYPESCRIPT.text(name)),
};

const I32_MAX = 2 ** 31 - 1;

/** Inside serde_json's `json!`. */
export const RUST: Style = {
  indent: "    ",
  none: "null",
  yes: "true",
  no: "false",
  // Half of a pair is no character in Rust.
  text: (text) => quoted(text, (point) => braced(point >= 0xd800 && point <= 0xdfff ? 0xfffd : point)),
  // A bare integer is an i32 unless it is said otherwise.
  number: (n) => (Number.isSafeInteger(n) && Math.abs(n) > I32_MAX ? `${n}_i64` : json(n)),
  key: (name) => RUST.text(name),
};

/** One word of a shell's line. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
