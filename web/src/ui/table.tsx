// A table over TanStack Table. On a narrow screen each row is a card with the names of its columns.
import { type ColumnDef, flexRender, getCoreRowModel, useReactTable } from "@tanstack/react-table";
import type { ReactNode } from "react";

declare module "@tanstack/react-table" {
  // eslint-disable-next-line @typescript-eslint/no-unused-vars
  interface ColumnMeta<TData, TValue> {
    number?: boolean;
    /** Takes the room that is left, and is cut where there is none. */
    wide?: boolean;
    /** The first thing on a card needs no name. */
    main?: boolean;
  }
}

export function DataTable<T>(props: {
  label: string;
  // Each column has its own type of value.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  columns: ColumnDef<T, any>[];
  rows: T[];
  id: (row: T) => string;
  stale?: boolean;
  empty: ReactNode;
}) {
  const table = useReactTable({
    data: props.rows,
    columns: props.columns,
    getCoreRowModel: getCoreRowModel(),
    getRowId: props.id,
  });
  if (props.rows.length === 0) return props.empty;
  return (
    <div className={`table-wrap ${props.stale ? "dim" : ""}`}>
      <table className="cards" aria-label={props.label}>
        <thead>
          {table.getHeaderGroups().map((group) => (
            <tr key={group.id}>
              {group.headers.map((header) => (
                <th key={header.id} scope="col" className={header.column.columnDef.meta?.number ? "number" : undefined}>
                  {flexRender(header.column.columnDef.header, header.getContext())}
                </th>
              ))}
            </tr>
          ))}
        </thead>
        <tbody>
          {table.getRowModel().rows.map((row) => (
            <tr key={row.id}>
              {row.getVisibleCells().map((cell) => {
                const { header, meta } = cell.column.columnDef;
                const label = !meta?.main && typeof header === "string" && header !== "" ? header : undefined;
                return (
                  <td key={cell.id} className={meta?.number ? "number" : meta?.wide ? "wide" : undefined} data-label={label}>
                    {flexRender(cell.column.columnDef.cell, cell.getContext())}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
