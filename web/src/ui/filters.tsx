// Filters that live in the address: what is typed goes there after a moment, and everybody sees the same.
import { useEffect, useId, useRef, useState } from "react";

const SETTLE_MS = 250;

export function TextFilter(props: {
  label: string;
  value: string | undefined;
  placeholder?: string;
  search?: boolean;
  onChange: (value: string | undefined) => void;
}) {
  const id = useId();
  const [text, setText] = useState(props.value ?? "");
  const sent = useRef(props.value ?? "");
  const change = useRef(props.onChange);
  useEffect(() => {
    change.current = props.onChange;
  });
  // The address changed by itself: a link, or the way back.
  useEffect(() => {
    const value = props.value ?? "";
    if (value !== sent.current) {
      sent.current = value;
      setText(value);
    }
  }, [props.value]);
  useEffect(() => {
    if (text === sent.current) return undefined;
    const timer = setTimeout(() => {
      sent.current = text;
      change.current(text.trim() || undefined);
    }, SETTLE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div className="field">
      <label htmlFor={id}>{props.label}</label>
      <input
        id={id}
        type="search"
        data-search={props.search ? "" : undefined}
        value={text}
        placeholder={props.placeholder}
        onChange={(event) => setText(event.target.value)}
      />
    </div>
  );
}

export function ChoiceFilter(props: {
  label: string;
  value: string | undefined;
  choices: [string, string][];
  onChange: (value: string | undefined) => void;
}) {
  const id = useId();
  const known = !props.value || props.choices.some(([value]) => value === props.value);
  return (
    <div className="field">
      <label htmlFor={id}>{props.label}</label>
      <select id={id} value={props.value ?? ""} onChange={(event) => props.onChange(event.target.value || undefined)}>
        <option value="">Any</option>
        {!known && <option value={props.value}>{props.value}</option>}
        {props.choices.map(([value, name]) => (
          <option key={value} value={value}>
            {name}
          </option>
        ))}
      </select>
    </div>
  );
}

export function Pager(props: { first: boolean; next: string | null | undefined; toFirst: () => void; toNext: (cursor: string) => void }) {
  if (props.first && !props.next) return null;
  return (
    <nav className="pager" aria-label="Pages of this list">
      <button type="button" disabled={props.first} onClick={props.toFirst}>
        First page
      </button>
      <button type="button" disabled={!props.next} onClick={() => props.next && props.toNext(props.next)}>
        Next page
      </button>
    </nav>
  );
}
