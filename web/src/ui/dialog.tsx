// Dialogs: Radix keeps the focus inside and the rest silent. The backdrop is ours, because Radix' own
// writes a style element into the page, which the page's policy forbids.
import { Dialog as Radix } from "radix-ui";
import { type ReactNode, useState } from "react";
import { Wrong } from "./basics";

export function Dialog(props: { open: boolean; onOpenChange: (open: boolean) => void; title: string; children: ReactNode }) {
  return (
    <Radix.Root open={props.open} onOpenChange={props.onOpenChange}>
      <Radix.Portal>
        <div className="backdrop" aria-hidden="true" onClick={() => props.onOpenChange(false)} />
        <Radix.Content className="dialog" aria-describedby={undefined}>
          <Radix.Title asChild>
            <h2>{props.title}</h2>
          </Radix.Title>
          {props.children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/** A button that asks before it does something, with room for more questions. */
export function Ask(props: {
  button: ReactNode;
  buttonClass?: string;
  disabled?: boolean;
  title: string;
  children: ReactNode;
  action: string;
  danger?: boolean;
  onAct: () => Promise<void>;
  onOpen?: () => void;
}) {
  const [open, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const change = (next: boolean) => {
    setOpen(next);
    setError(undefined);
    if (next) props.onOpen?.();
  };
  const act = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await props.onAct();
      setOpen(false);
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <button type="button" className={props.buttonClass} disabled={props.disabled} onClick={() => change(true)}>
        {props.button}
      </button>
      <Dialog open={open} onOpenChange={change} title={props.title}>
        <form
          className="stack"
          onSubmit={(event) => {
            event.preventDefault();
            void act();
          }}
        >
          {props.children}
          {error !== undefined && <Wrong error={error} />}
          <div className="actions">
            <button type="button" onClick={() => change(false)}>
              Leave it
            </button>
            <button type="submit" className={props.danger ? "danger solid" : "primary"} disabled={busy}>
              {props.action}
            </button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
