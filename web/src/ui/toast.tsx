// Short answers to what was done. They go away by themselves; a screen reader says them.
import { useSyncExternalStore } from "react";
import { ApiError } from "../api/client";

interface Toast {
  id: number;
  tone: "good" | "bad";
  text: string;
}

const SHOWN_MS = 6_000;
const SHOWN_MAX = 4;
let toasts: Toast[] = [];
let last = 0;
const watchers = new Set<() => void>();

function change(next: Toast[]): void {
  toasts = next.slice(-SHOWN_MAX);
  watchers.forEach((watcher) => watcher());
}

export function say(text: string, tone: Toast["tone"] = "good"): void {
  const id = (last += 1);
  change([...toasts, { id, tone, text }]);
  setTimeout(() => change(toasts.filter((one) => one.id !== id)), SHOWN_MS);
}

export function sayWrong(error: unknown): void {
  say(error instanceof ApiError ? `${error.message}. ${error.help}` : String(error), "bad");
}

export function Toasts() {
  const list = useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => toasts,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {list.map((toast) => (
        <div key={toast.id} className="toast" data-tone={toast.tone}>
          {toast.text}
        </div>
      ))}
    </div>
  );
}
