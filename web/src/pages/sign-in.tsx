// Where the server has keys, one is asked for. Where it has none, nobody notices this page.
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useEffect, useState } from "react";
import { api, ApiError, got, key, onUnauthorized } from "../api/client";
import { live } from "../live/live";
import { Field, Wrong } from "../ui/basics";

export function SignInGate({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const [asked, setAsked] = useState(false);
  useEffect(
    () =>
      onUnauthorized(() => {
        live.end();
        setAsked(true);
      }),
    [],
  );
  useEffect(() => {
    if (!asked) live.start();
    return () => live.end();
  }, [asked]);
  if (!asked) return children;
  return (
    <SignIn
      done={() => {
        client.clear();
        setAsked(false);
      }}
    />
  );
}

function SignIn({ done }: { done: () => void }) {
  const [text, setText] = useState("");
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    key.set(text.trim());
    try {
      await got(api.GET("/v1/version"));
      done();
    } catch (problem) {
      key.forget();
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  const fault = error instanceof ApiError && error.status === 401 ? "The server does not know this key." : undefined;
  return (
    <main className="sign-in">
      <form className="panel" onSubmit={(event) => void submit(event)}>
        <div className="row">
          <img src="/favicon.svg" alt="" width={28} height={28} />
          <h1>Sign in to duly</h1>
        </div>
        <Field
          label="API key"
          fault={fault}
          help="It is kept in this tab only, until you close it or sign out."
        >
          {(of) => (
            <input
              {...of}
              type="password"
              autoComplete="off"
              autoFocus
              className="mono"
              placeholder="duly_…"
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          )}
        </Field>
        {error !== undefined && !fault && <Wrong error={error} />}
        <button type="submit" className="primary" disabled={busy || text.trim() === ""}>
          Sign in
        </button>
        <p className="small muted">
          No key? Whoever runs the server makes one: <code>duly key create --scope admin</code>, or{" "}
          <code>--scope read</code> to look only.
        </p>
      </form>
    </main>
  );
}
