// The frame around every page: where to go, whether we are live, the theme, the keyboard.
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useLocation, useRouter } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { key } from "../api/client";
import { version } from "../api/queries";
import { useLiveState } from "../live/live";
import { Dialog } from "../ui/dialog";

const PAGES = [
  { to: "/", name: "Overview", letter: "o" },
  { to: "/jobs", name: "Jobs", letter: "j" },
  { to: "/runs", name: "Runs", letter: "r" },
  { to: "/dead-letters", name: "Dead letters", letter: "d" },
  { to: "/queues", name: "Queues", letter: "q" },
  { to: "/workers", name: "Workers", letter: "w" },
  { to: "/cluster", name: "Cluster", letter: "c" },
] as const;

/** How long after g a letter belongs to it. */
const CHORD_MS = 1_500;

export function Shell() {
  const help = useKeyboard();
  const nav = useRef<HTMLElement>(null);
  const page = useLocation({ select: ({ pathname }) => pathname.split("/")[1] });
  // On a small screen the pages are a line that scrolls: where one is must be seen.
  useEffect(() => {
    const link = nav.current?.querySelector<HTMLElement>("[aria-current=page]");
    if (link) nav.current?.scrollTo({ left: link.offsetLeft - (nav.current.clientWidth - link.offsetWidth) / 2 });
  }, [page]);
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to the page
      </a>
      <header className="side">
        <Link to="/" className="brand">
          <img src="/favicon.svg" alt="" /> duly
        </Link>
        <nav className="nav" aria-label="Pages" ref={nav}>
          {PAGES.map((page) => (
            <Link key={page.to} to={page.to} activeOptions={{ exact: page.to === "/", includeSearch: false }}>
              {page.name}
              <span className="hint" aria-hidden="true">
                g {page.letter}
              </span>
            </Link>
          ))}
        </nav>
        <Foot showKeys={() => help.setOpen(true)} />
      </header>
      <main className="main" id="main" tabIndex={-1}>
        <Outlet />
      </main>
      <Dialog open={help.open} onOpenChange={help.setOpen} title="Keyboard">
        <dl className="facts">
          {PAGES.map((page) => (
            <div key={page.to} style={{ display: "contents" }}>
              <dt>
                <code>g</code> <code>{page.letter}</code>
              </dt>
              <dd>{page.name}</dd>
            </div>
          ))}
          <dt>
            <code>/</code>
          </dt>
          <dd>Search on this page, or for jobs</dd>
          <dt>
            <code>n</code>
          </dt>
          <dd>New job</dd>
          <dt>
            <code>?</code>
          </dt>
          <dd>This list</dd>
        </dl>
      </Dialog>
    </div>
  );
}

const SAYS = { live: "Live", connecting: "Connecting", away: "Not connected, trying again" };

function Foot({ showKeys }: { showKeys: () => void }) {
  const state = useLiveState();
  const about = useQuery(version());
  return (
    <div className="side-foot">
      <span className="pulse" data-state={state} role="status">
        {SAYS[state]}
      </span>
      <ThemeSwitch />
      <div className="about small muted stack tight">
        <button type="button" className="link" onClick={showKeys} aria-keyshortcuts="?">
          Keyboard
        </button>
        {key.get() && (
          <button
            type="button"
            className="link"
            onClick={() => {
              key.forget();
              location.assign("/");
            }}
          >
            Sign out
          </button>
        )}
        <span>{about.data ? `duly ${about.data.version}` : "\u00a0"}</span>
      </div>
    </div>
  );
}

function ThemeSwitch() {
  const system = () => (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const [theme, setTheme] = useState(() => document.documentElement.dataset.theme ?? system());
  const other = theme === "dark" ? "light" : "dark";
  const change = () => {
    document.documentElement.dataset.theme = other;
    setTheme(other);
    try {
      localStorage.setItem("duly.theme", other);
    } catch {
      // It lasts until the page is closed, then.
    }
  };
  return (
    <button type="button" className="small" onClick={change}>
      {other === "dark" ? "Dark" : "Light"} theme
    </button>
  );
}

function useKeyboard() {
  const router = useRouter();
  const [open, setOpen] = useState(false);
  useEffect(() => {
    let chord = -Infinity;
    const pressed = (event: KeyboardEvent) => {
      const at = event.target as HTMLElement;
      const typing = at.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(at.tagName);
      if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("[role=dialog]")) return;
      if (performance.now() - chord < CHORD_MS) {
        chord = -Infinity;
        const page = PAGES.find((one) => one.letter === event.key);
        if (page) void router.navigate({ to: page.to });
        return;
      }
      if (event.key === "g") chord = performance.now();
      else if (event.key === "?") setOpen(true);
      else if (event.key === "n") void router.navigate({ to: "/jobs/new" });
      else if (event.key === "/") {
        event.preventDefault();
        const search = () => document.querySelector<HTMLInputElement>("input[data-search]");
        if (search()) search()?.focus();
        else void router.navigate({ to: "/jobs" }).then(() => requestAnimationFrame(() => search()?.focus()));
      }
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [router]);
  return { open, setOpen };
}
