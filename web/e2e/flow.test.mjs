// What the dashboard shows of flow control and of runs under way. A test of what the API does not have yet wakes up
// with it: docs/openapi.json says whether the server does.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { browse, receive, runCode, scripts, serve } from "./world.mjs";

const { components } = JSON.parse(readFileSync(new URL("../../docs/openapi.json", import.meta.url), "utf8"));
const without = (is) => ({ skip: is ? false : "the server does not have it" });
const progress = without(components.schemas.Run.properties.progress);

let server, hooks, web, page;

before(async () => {
  hooks = await receive();
  server = await serve();
  web = await browse();
  page = await web.open(server.url);
});

after(async () => {
  await web?.close();
  await server?.stop();
  await hooks?.stop();
});

const field = (label) => page.getByLabel(label, { exact: true });
const button = (name) => page.getByRole("button", { name, exact: true });

test("a limit is edited", async () => {
  await server.ask("POST", "/v1/jobs", { queue: "narrow", schedule: { delay: "1h" }, target: { worker: { kind: "k" } } });
  await server.ask("PUT", "/v1/queues/narrow", { groups: { rate: "6/m" } });
  await page.goto("/queues/narrow");
  await field("Running at once").fill("2");
  await field("Starts at most").fill("often");
  await button("Save the limits").click();
  await page.locator(".fault").first().waitFor();
  assert.equal(await field("Starts at most").getAttribute("aria-invalid"), "true");
  await field("Starts at most").fill("50/s");
  await field("Weights of groups").fill("cust-42: 3");
  await button("Save the limits").click();
  await page.getByText("The limits are saved.").waitFor();
  const saved = (await server.ask("GET", "/v1/queues/narrow")).limits;
  assert.equal(saved.max_running, 2);
  assert.equal(saved.rate, "50/s");
  assert.equal(saved.groups.rate, "6/m", "what was not touched stays");
  assert.deepEqual(saved.groups.weights, { "cust-42": 3 });
  // Somebody else changes one: the page follows, because nothing was typed. An empty field takes a limit away.
  await server.ask("PUT", "/v1/queues/narrow", { max_running: 7 });
  await page.waitForFunction(() => document.querySelector("input[name=max_running]")?.value === "7");
  await field("Running at once").fill("");
  await button("Save the limits").click();
  await page.waitForFunction(() => document.querySelector("button[type=submit]")?.disabled);
  assert.equal((await server.ask("GET", "/v1/queues/narrow")).limits.max_running, null);
});

test("the groups of a queue are listed, the longest line first", async () => {
  const job = (group) => ({ queue: "fair", group, target: { worker: { kind: "k" } } });
  await server.ask("POST", "/v1/jobs/batch", { jobs: [job("cust-1"), job("cust-42"), job("cust-42")] });
  await page.goto("/queues/fair");
  const rows = page.getByRole("table", { name: "Groups" }).getByRole("row");
  await rows.nth(2).waitFor();
  assert.match(await rows.nth(1).textContent(), /^cust-422/);
  assert.match(await rows.nth(2).textContent(), /^cust-11/);
});

test("a host that fails is seen to be left alone", async () => {
  hooks.state.broken = true;
  const retry = { max_retries: 3, initial: "1s" };
  const jobs = Array.from({ length: 60 }, () => ({ target: { http: { url: `${hooks.url}/broken` } }, retry }));
  await server.ask("POST", "/v1/jobs/batch", { jobs });
  await page.goto("/queues");
  const row = page.getByRole("table", { name: "Destinations" }).getByRole("row").filter({ hasText: new URL(hooks.url).host });
  await row.getByText("open: waits").or(row.getByText("tries one")).waitFor();
});

test("a run under way shows its progress and its checkpoint", progress, async () => {
  const code = `
    import { Worker } from "duly-client";
    const worker = new Worker({ url: "${server.url}", queues: ["long"], lease: "3s", grace: "0s" });
    worker.handle("export", async (payload, context) => {
      context.progress(0.62, "page 31 of 50");
      await context.checkpoint({ page: 31 });
      await fetch("${hooks.url}/slow", { signal: context.signal });
    });
    await worker.run();`;
  const worker = runCode("typescript", code, scripts());
  try {
    const made = await server.ask("POST", "/v1/jobs", { queue: "long", target: { worker: { kind: "export" } } });
    await page.goto(`/runs/${made.run_id}`);
    const told = page.getByTestId("progress");
    await told.getByText("page 31 of 50").waitFor();
    await told.getByText("62 %").waitFor();
    await page.getByLabel("the checkpoint").getByText('"page": 31').waitFor();
  } finally {
    await worker.stop("SIGKILL");
  }
});

test("what happens before a page's stream begins is shown all the same", async () => {
  const made = await server.ask("POST", "/v1/jobs", { queue: "late", target: { worker: { kind: "k" } } });
  let begin;
  const begun = new Promise((resolve) => (begin = resolve));
  await page.route("**/v1/events*", async (route) => (await begun, route.continue()));
  try {
    await page.goto(`/runs/${made.run_id}`);
    const status = page.locator(".head .status");
    await status.getByText("ready").waitFor();
    const { runs } = await server.ask("POST", "/v1/work/claim", { worker: "w", queues: ["late"], wait: "0s" });
    assert.equal(runs[0].run_id, made.run_id);
    begin();
    await status.getByText("running").waitFor();
  } finally {
    begin();
    await page.unroute("**/v1/events*");
  }
});

test("no complaint of the browser, no request to another host", () => {
  assert.deepEqual(web.complaints, []);
});
