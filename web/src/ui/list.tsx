// A page of a list: its filters, its rows or why there are none, and the way to the next page.
import type { UseQueryResult } from "@tanstack/react-query";
import type { ColumnDef } from "@tanstack/react-table";
import type { ReactNode } from "react";
import { Empty, Loading, Wrong } from "./basics";
import { Pager } from "./filters";
import { DataTable } from "./table";

export interface Page<T> {
  items: T[];
  next_cursor?: string | null;
}

export function ListPanel<T>(props: {
  label: string;
  found: UseQueryResult<Page<T>>;
  // Each column has its own type of value.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  columns: ColumnDef<T, any>[];
  id: (row: T) => string;
  filters?: ReactNode;
  /** How to get rid of the filters; absent while there are none. */
  clear?: () => void;
  many?: boolean;
  /** What is said where nothing is like the filters, and where there is nothing at all. */
  unlike?: ReactNode;
  nothing: ReactNode;
  cursor: string | undefined;
  /** Undefined: the first page. */
  go: (cursor: string | undefined) => void;
}) {
  const { found } = props;
  const empty = found.data?.next_cursor ? (
    <Empty title="Nothing on this page">
      <p>A part of the list was looked through, newest first. Go on to the next page.</p>
    </Empty>
  ) : props.clear ? (
    props.unlike
  ) : (
    props.nothing
  );
  return (
    <section className="panel" aria-label={props.label}>
      {props.filters && (
        <div className={`filters ${props.many ? "many" : ""}`} role="search">
          {props.filters}
          {props.clear && (
            <button type="button" className="plain" onClick={props.clear}>
              Clear
            </button>
          )}
        </div>
      )}
      {found.isPending && (
        <div className="body">
          <Loading lines={6} />
        </div>
      )}
      {found.error && !found.data && (
        <div className="body">
          <Wrong error={found.error} retry={() => void found.refetch()} />
        </div>
      )}
      {found.data && <DataTable label={props.label} columns={props.columns} rows={found.data.items} id={props.id} stale={found.isPlaceholderData} empty={empty} />}
      <Pager first={!props.cursor} next={found.data?.next_cursor} toFirst={() => props.go(undefined)} toNext={props.go} />
    </section>
  );
}
