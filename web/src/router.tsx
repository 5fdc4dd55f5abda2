// Addresses of the page. Everything that a page shows is in its address, so that it can be sent to others.
import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import type { DeadFilter, JobsFilter, RunsFilter } from "./api/queries";
import { Shell } from "./pages/shell";
import { Empty } from "./ui/basics";
import { Overview } from "./pages/overview";

/** Plain texts by name; what is empty is left out. */
function texts<T>(...names: string[]) {
  return (search: Record<string, unknown>): T => {
    const kept = names.filter((name) => typeof search[name] === "string" && search[name] !== "");
    return Object.fromEntries(kept.map((name) => [name, search[name]])) as T;
  };
}

const root = createRootRoute({
  component: Shell,
  notFoundComponent: () => (
    <Empty title="There is no such page">
      <p>
        The address has a typing error, or the page has moved. Begin at the <a href="/">overview</a>.
      </p>
    </Empty>
  ),
});

const tree = root.addChildren([
  createRoute({ getParentRoute: () => root, path: "/", component: Overview }),
  createRoute({
    getParentRoute: () => root,
    path: "/jobs",
    validateSearch: texts<JobsFilter>("status", "queue", "tag", "owner", "q", "cursor"),
    component: lazyRouteComponent(() => import("./pages/jobs"), "Jobs"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/jobs/new",
    validateSearch: texts<{ target?: string; kind?: string; queue?: string; payload?: string }>("target", "kind", "queue", "payload"),
    component: lazyRouteComponent(() => import("./pages/create-job"), "CreateJob"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/jobs/$job",
    component: lazyRouteComponent(() => import("./pages/job"), "JobPage"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/runs",
    validateSearch: texts<RunsFilter>("job", "status", "queue", "worker", "cause", "q", "since", "until", "cursor"),
    component: lazyRouteComponent(() => import("./pages/runs"), "Runs"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/runs/$run",
    component: lazyRouteComponent(() => import("./pages/run"), "RunPage"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/dead-letters",
    validateSearch: texts<DeadFilter & { operation?: string }>("job", "queue", "q", "cursor", "operation"),
    component: lazyRouteComponent(() => import("./pages/dead"), "Dead"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/queues",
    validateSearch: texts<{ cursor?: string }>("cursor"),
    component: lazyRouteComponent(() => import("./pages/queues"), "Queues"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/queues/$queue",
    component: lazyRouteComponent(() => import("./pages/queue"), "QueuePage"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/workers",
    validateSearch: texts<{ cursor?: string }>("cursor"),
    component: lazyRouteComponent(() => import("./pages/workers"), "Workers"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/workers/$worker",
    component: lazyRouteComponent(() => import("./pages/worker"), "WorkerPage"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/cluster",
    component: lazyRouteComponent(() => import("./pages/cluster"), "Cluster"),
  }),
]);

export const router = createRouter({
  routeTree: tree,
  defaultPreload: "intent",
  scrollRestoration: true,
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const pairs = Object.entries(search).filter(([, value]) => typeof value === "string" && value !== "");
    const text = new URLSearchParams(pairs as [string, string][]).toString();
    return text === "" ? "" : `?${text}`;
  },
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
