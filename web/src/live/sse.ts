// Server-sent events over fetch, because a browser's own EventSource cannot send a key.

export interface SseEvent {
  id: string;
  name: string;
  data: string;
}

/** More than one event has; a stream that sends no end of a line is broken. */
const PENDING_MAX = 1 << 20;

/** Takes text in pieces as they come and gives whole events. */
export class SseParser {
  private pending = "";
  private name = "";
  private data: string[] = [];
  /** The last id, also without an event. */
  id = "";

  push(text: string): SseEvent[] {
    const events: SseEvent[] = [];
    const lines = (this.pending + text).split("\n");
    this.pending = lines.pop() ?? "";
    if (this.pending.length > PENDING_MAX) throw new Error("a line without end");
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (this.data.length > 0) {
          events.push({ id: this.id, name: this.name || "message", data: this.data.join("\n") });
        }
        this.name = "";
        this.data = [];
        continue;
      }
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
      if (field === "id") this.id = value;
      else if (field === "event") this.name = value;
      else if (field === "data") this.data.push(value);
    }
    return events;
  }
}
