// Pictures of every page, light and dark, for the docs: `npm run pictures` after `make web`. The server is real and lives as
// long as the pictures take; the pages are those of web/dist, whatever the binary was built with.
import { mkdirSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { front } from "../e2e/front.mjs";
import { browse, receive, runCode, scripts, serve } from "../e2e/world.mjs";

const folder = fileURLToPath(new URL("../../docs/pictures", import.meta.url));
const BYTES_MAX = 200 * 1024;
mkdirSync(folder, { recursive: true });

const hooks = await receive();
hooks.state.says = "upstream database is not reachable";
const server = await serve();
const pages = await front(server.url);
const web = await browse();
const job = (name, schedule, more = {}) =>
  server.ask("POST", "/v1/jobs", {
    name,
    schedule,
    target: { http: { url: `${hooks.url}/${name}` } },
    owner: "platform@example.com",
    ...more,
  });

/** A worker whose handlers wait until somebody lets them go, so that it holds something. */
const code = scripts();
const working = [];
const work = (options, kinds) =>
  working.push(
    runCode(
      "typescript",
      `import { Worker } from "duly-client";
      const worker = new Worker(${JSON.stringify({ url: server.url, grace: "1s", ...options })});
      for (const kind of ${JSON.stringify(kinds)}) {
        worker.handle(kind, async (payload, context) => {
          context.progress(0.62, "page 31 of 50");
          await context.checkpoint({ page: 31, cursor: "c-8841" });
          await fetch("${hooks.url}/slow", { signal: context.signal });
        });
      }
      await worker.run();`,
      code,
    ),
  );

try {
  work({ name: "crm-sync-5c7d", version: "2.14.0", labels: { zone: "eu-1a", pool: "sync" }, queues: ["crm"], concurrency: 4 }, ["sync"]);
  work({ name: "crm-sync-9f02", version: "2.14.0", labels: { zone: "eu-1b", pool: "sync" }, queues: ["crm"], concurrency: 4 }, ["sync"]);
  work({ name: "exports-71ab", version: "0.9.3", labels: { zone: "eu-1a" }, queues: ["exports", "archive"], concurrency: 2 }, ["export", "archive", "verify"]);
  await server.ask("PUT", "/v1/queues/crm", { max_running: 40, rate: "100/s", groups: { max_running: 2, weights: { "cust-42": 3 } } });
  for (const [group, many] of [["cust-42", 5], ["cust-7", 4], ["cust-118", 1]]) {
    const sync = (_, n) => ({ queue: "crm", group, target: { worker: { kind: "sync" } }, payload: { account: 4000 + n }, timeout: "20m" });
    await server.ask("POST", "/v1/jobs/batch", { jobs: Array.from({ length: many }, sync) });
  }
  const exported = await server.ask("POST", "/v1/jobs", { name: "export-archive", queue: "exports", target: { worker: { kind: "export" } }, payload: { table: "orders", year: 2026 } });
  for (let n = 0; n < 6; n += 1) await server.ask("POST", "/v1/jobs", { schedule: { delay: `${7 * (n + 1)}m` }, queue: "mail", target: { worker: { kind: "mail" } } });
  for (let n = 0; n < 3; n += 1) await server.ask("POST", "/v1/jobs", { queue: "reports", target: { worker: { kind: "report" } } });
  await job("nightly-billing", { cron: "30 2 * * *", timezone: "Europe/Zurich" }, { queue: "billing", tags: { team: "billing", tier: "gold" }, owner: "billing@example.com" });
  await job("weekly-report", { cron: "0 7 * * MON", timezone: "America/New_York" }, { tags: { team: "data" } });
  await server.ask("PATCH", "/v1/jobs/weekly-report", { schedule: { cron: "30 6 * * MON", timezone: "America/New_York" } }, { "if-match": "*" });
  await server.ask("PATCH", "/v1/jobs/weekly-report", { retry: { max_retries: 5 }, tags: { team: "data", tier: "gold" } }, { "if-match": "*" });
  await job("warm-cache", { every: "10m" }, { queue: "web", tags: { team: "web" } });
  await job("rotate-logs", { every: "15m", jitter: "1m" }, { queue: "web" });
  await job("sync-crm", { every: "5m" }, { target: { worker: { kind: "sync" } }, tags: { team: "sales" } });
  const beat = await job("heartbeat", { every: "1s" }, { tags: { team: "platform" }, payload: { check: "db", limit_ms: 250 } });
  await job("send-mails", { every: "2s" }, { queue: "mail", tags: { team: "web" }, payload: { batch: 50 } });
  await job("export-orders", { every: "3s" }, { queue: "billing", retry: { max_retries: 1, initial: "1s" }, target: { http: { url: `${hooks.url}/broken` } }, tags: { team: "billing" }, payload: { since: "yesterday" } });

  // Opened first: the overview draws what it hears, so it should have heard something.
  const overviews = {};
  for (const colorScheme of ["light", "dark"]) {
    overviews[colorScheme] = await web.open(pages.url, { colorScheme });
    await overviews[colorScheme].goto("/");
  }
  const watcher = await web.open(pages.url);
  await watcher.goto(`/jobs/${beat.id}`);
  await watcher.getByLabel("Verdicts of the last occurrences").getByRole("link").nth(24).waitFor({ timeout: 60_000 });
  await watcher.context().close();
  const dead = (await server.ask("GET", "/v1/dead-letters?limit=1")).items[0].id;
  const addresses = {
    overview: "/",
    jobs: "/jobs",
    job: "/jobs/heartbeat",
    "job-versions": "/jobs/weekly-report",
    "new-job": "/jobs/new",
    runs: "/runs?cause=occurrence",
    run: `/runs/${dead}`,
    "dead-letters": "/dead-letters",
    "run-running": `/runs/${exported.run_id}`,
    queues: "/queues",
    queue: "/queues/crm",
    workers: "/workers",
    worker: "/workers/crm-sync-5c7d",
    cluster: "/cluster",
  };
  for (const colorScheme of ["light", "dark"]) {
    const page = overviews[colorScheme];
    for (const [name, address] of Object.entries(addresses)) {
      if (name !== "overview") await page.goto(address);
      await page.locator(".pulse[data-state=live]").waitFor();
      await page.locator("[aria-busy=true]").first().waitFor({ state: "detached" });
      if (name === "overview") {
        await page.locator(".feed li").nth(7).waitFor();
        await page.locator(".plot canvas").waitFor();
        // The rates are of whole seconds: some must have passed.
        await page.waitForFunction(() => /[1-9]/.test(document.querySelector(".tile .value")?.textContent ?? ""));
      }
      if (name === "worker") await page.getByRole("table", { name: "Runs that it holds" }).waitFor();
      if (name === "job-versions") {
        await page.getByRole("tab", { name: "Versions" }).click();
        await page.getByRole("list", { name: "Versions of this job" }).getByRole("listitem").nth(2).waitFor();
      }
      if (name === "job") await page.locator(".plot canvas").nth(1).waitFor();
      if (name === "new-job") {
        await page.getByLabel("URL", { exact: true }).fill("https://billing.example.com/close-day");
        await page.getByLabel("Payload", { exact: true }).fill('{"day": "yesterday"}');
        await page.getByRole("radio", { name: "Cron" }).click();
        await page.getByLabel("Cron expression").fill("30 2 * * *");
        await page.getByLabel("Time zone").fill("Europe/Zurich");
        await page.getByTestId("preview").getByText("does not exist").first().waitFor();
        await page.getByLabel("Time zone").evaluate((field) => field.blur());
        await page.setViewportSize({ width: 1280, height: 1080 });
      } else {
        await page.setViewportSize({ width: 1280, height: 820 });
      }
      const path = `${folder}/${name}-${colorScheme}.png`;
      await page.screenshot({ path });
      const { size } = statSync(path);
      if (size > BYTES_MAX) throw new Error(`${path} has ${size} bytes`);
      console.log(`${name}-${colorScheme}.png ${Math.ceil(size / 1024)} KB`);
    }
    await page.context().close();
  }
} finally {
  await Promise.all(working.map((child) => child.stop("SIGKILL")));
  await web.close();
  await pages.stop();
  await server.stop();
  await hooks.stop();
}
