// A server answers a part of a long list at a time, and the part may hold nothing that is like the filters. A person should
// not have to press "Next page" for that.

interface Part<T> {
  items: T[];
  next_cursor?: string | null;
}

/** The first part that holds something, or the last one looked at; at most `looks` are asked for. */
export async function furtherUntilFound<P extends Part<unknown>>(ask: (cursor?: string) => Promise<P>, looks: number): Promise<P> {
  let found = await ask();
  for (let n = 1; n < looks && found.items.length === 0 && found.next_cursor; n += 1) found = await ask(found.next_cursor);
  return found;
}
