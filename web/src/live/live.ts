// The one open stream of the page. It comes back by itself, goes on where it was, and wakes React once
// per frame at most, whatever the stream carries.
import { useQueryClient, type QueryClient, type QueryKey } from "@tanstack/react-query";
import { useEffect, useRef, useSyncExternalStore } from "react";
import { authorization, refused } from "../api/client";
import { SseParser } from "./sse";
import { type Changes, Tally, type Told } from "./tally";

export type LiveState = "connecting" | "live" | "away";

const AGAIN_FIRST_MS = 500;
const AGAIN_MAX_MS = 10_000;
/** A page that nobody sees for this long gives its connection back: a browser has few of them per server. */
const HIDDEN_MS = 10_000;
/** What the server sends at least: a comment now and then. After this without anything it is asked again. */
const SILENCE_MAX_MS = 60_000;

class Live {
  readonly tally = new Tally(Date.now());
  state: LiveState = "connecting";
  private readonly watchers = new Set<() => void>();
  private readonly changeWatchers = new Set<(changes: Changes) => void>();
  private version = 0;
  private frame = 0;
  private stop: AbortController | undefined;
  private lastId = "";

  start(): void {
    if (this.stop) return;
    this.stop = new AbortController();
    void this.listen(this.stop.signal);
    const tick = setInterval(() => {
      this.tally.advance(Date.now());
      this.wake();
    }, 1_000);
    this.stop.signal.addEventListener("abort", () => clearInterval(tick));
  }

  end(): void {
    this.stop?.abort();
    this.stop = undefined;
    this.lastId = "";
  }

  subscribe = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  onChanges(watcher: (changes: Changes) => void): () => void {
    this.changeWatchers.add(watcher);
    return () => this.changeWatchers.delete(watcher);
  }

  snapshot = (): number => this.version;

  private async listen(signal: AbortSignal): Promise<void> {
    let again = AGAIN_FIRST_MS;
    while (!signal.aborted) {
      await shown(signal);
      try {
        await this.once(signal, () => (again = AGAIN_FIRST_MS));
      } catch {
        // Said by the state; tried again below.
      }
      if (signal.aborted) return;
      this.become("away");
      await new Promise((resolve) => setTimeout(resolve, again));
      again = Math.min(again * 2, AGAIN_MAX_MS);
    }
  }

  private async once(signal: AbortSignal, begun: () => void): Promise<void> {
    const one = new AbortController();
    const abort = () => one.abort();
    signal.addEventListener("abort", abort);
    let silence = setTimeout(abort, SILENCE_MAX_MS);
    let hidden: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      clearTimeout(hidden);
      if (document.hidden) hidden = setTimeout(abort, HIDDEN_MS);
    };
    document.addEventListener("visibilitychange", look);
    try {
      const after = this.lastId ? `?last_event_id=${encodeURIComponent(this.lastId)}` : "";
      const response = await fetch(`/v1/events${after}`, { headers: authorization(), signal: one.signal });
      if (!response.ok || !response.body) {
        if (response.status === 422) this.lastId = "";
        throw await refused(response);
      }
      begun();
      // What happened while nobody listened is not known: since the connection broke, or since the page asked for what
      // it shows, which it does while the stream begins.
      if (this.state === "away") this.changed("gap");
      else this.tally.unsure();
      this.become("live");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new SseParser();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(silence);
        silence = setTimeout(abort, SILENCE_MAX_MS);
        const now = Date.now();
        for (const event of parser.push(value)) {
          try {
            this.tally.add(JSON.parse(event.data) as Told, now);
          } catch {
            this.changed("gap");
          }
        }
        this.lastId = parser.id || this.lastId;
        this.wake();
      }
    } finally {
      clearTimeout(silence);
      clearTimeout(hidden);
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", abort);
      one.abort();
    }
  }

  private changed(type: string): void {
    this.tally.add({ type }, Date.now());
    this.wake();
  }

  private become(state: LiveState): void {
    if (this.state === state) return;
    this.state = state;
    this.wake();
  }

  private wake(): void {
    // A hidden page has no frames; what it missed is counted, and drawn when it is looked at.
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.version += 1;
      const changes = this.tally.take();
      if (changes.all || changes.types.size > 0) this.changeWatchers.forEach((watcher) => watcher(changes));
      this.watchers.forEach((watcher) => watcher());
    });
  }
}

/** When somebody looks at the page, or nobody needs to know any more. */
function shown(signal: AbortSignal): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
  });
}

export const live = new Live();

/** Draws again with the stream, once per frame at most. Keep what uses it small. */
export function useLive(): Live {
  useSyncExternalStore(live.subscribe, live.snapshot);
  return live;
}

/** Draws again when a second is over: what is counted per second has no use for more. */
export function useLiveSecond(): Live {
  useSyncExternalStore(live.subscribe, () => live.tally.lastSecond());
  return live;
}

/** Only when the connection changes. */
export function useLiveState(): LiveState {
  return useSyncExternalStore(live.subscribe, () => live.state);
}

/**
 * Asks again for these. True if one of them waits for its very first answer: that is not asked for a second time and may
 * have left the server before the event came, so whoever was told of one asks once more.
 */
export function askAgain(client: QueryClient, keys: QueryKey[]): boolean {
  for (const queryKey of keys) void client.invalidateQueries({ queryKey });
  return keys.some((queryKey) => client.isFetching({ queryKey, predicate: ({ state }) => state.data === undefined }) > 0);
}

/**
 * Asks again for these when something relevant happened: at once, then every `every` milliseconds at most,
 * and a last time after the last event.
 */
export function useRefresh(keys: QueryKey[], relevant: (changes: Changes) => boolean, every = 1_000): void {
  const client = useQueryClient();
  const latest = useRef({ keys, relevant });
  useEffect(() => {
    latest.current = { keys, relevant };
  });
  useEffect(() => {
    let [timer, last] = [0, 0];
    const go = () => {
      timer = 0;
      last = performance.now();
      if (askAgain(client, latest.current.keys)) timer = window.setTimeout(go, every);
    };
    const off = live.onChanges((changes) => {
      if (timer || !(changes.all || latest.current.relevant(changes))) return;
      timer = window.setTimeout(go, Math.max(0, last + every - performance.now()));
    });
    return () => {
      off();
      clearTimeout(timer);
    };
  }, [client, every]);
}
