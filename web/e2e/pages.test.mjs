// What the pages must show beside what can be done on them: the overview's numbers, a job's plots and clock changes, a run's
// attempts and search, discarding, the cluster's map.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browse, receive, serve } from "./world.mjs";

const ZONE = "Europe/Zurich";

let server, hooks, web, page;

before(async () => {
  hooks = await receive();
  server = await serve();
  web = await browse();
  page = await web.open(server.url, { timezoneId: "Asia/Tokyo" });
});

after(async () => {
  await web?.close();
  await server?.stop();
  await hooks?.stop();
});

const panel = (title) => page.locator("section").filter({ has: page.getByRole("heading", { name: title, exact: true }) });
const tile = (name) => page.locator(".tile", { hasText: name });

test("the overview says how late, what waits, what fails first and what fires next", async () => {
  hooks.state.broken = true;
  const broken = { http: { url: `${hooks.url}/broken` } };
  await server.ask("POST", "/v1/jobs", { name: "soon", schedule: { every: "10m" }, target: { http: { url: `${hooks.url}/soon` } } });
  await server.ask("POST", "/v1/jobs", { name: "waits", queue: "lonely", target: { worker: { kind: "nobody" } } });
  await server.ask("POST", "/v1/jobs", { name: "fails", target: broken, retry: { max_retries: 3, initial: "1h" } });
  const dead = await server.ask("POST", "/v1/jobs", { name: "dies", target: broken, retry: { max_retries: 0 } });
  await server.ask("GET", `/v1/runs/${dead.run_id}?wait=20s`);
  await page.goto("/");
  for (const name of ["Fires", "Succeeded", "Failed", "Retries"]) await tile(name).getByText("/s").first().waitFor();
  await tile("Fire skew p99").getByText("p50").waitFor();
  await tile("Oldest waits").getByText("1 ready").waitFor();
  await tile("Dead letters").getByText("wait for a person").waitFor();
  const failing = page.getByRole("table", { name: "Failing jobs" });
  await failing.getByRole("link", { name: "fails" }).waitFor();
  const first = failing.getByRole("row").nth(1);
  await first.getByRole("link", { name: "dies" }).waitFor();
  await page.getByRole("img", { name: /^About \d+ fires in the next hour$/ }).waitFor();
  await panel("Fires next").getByRole("link", { name: "soon" }).waitFor();
});

test("a job's page tells clock changes and draws durations; times are the viewer's, with UTC on hover", async () => {
  // The night in which clocks go forward, whichever is next: an instant that does not exist then.
  const night = { cron: "30 2 * 3 0", timezone: ZONE };
  await server.ask("POST", "/v1/jobs", { name: "night", schedule: night, target: { worker: { kind: "k" } } });
  await page.goto("/jobs/night");
  await panel("Next fires").getByText("clocks change").first().waitFor();
  const time = panel("Next fires").locator("time").first();
  const at = await time.getAttribute("datetime");
  assert.ok((await time.getAttribute("title")).startsWith(`${at.replace("T", " ").replace("Z", "")} UTC`));
  const hour = (zone) => new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: zone }).format(new Date(at));
  assert.ok((await time.textContent()).includes(hour("Asia/Tokyo")), await time.textContent());
  await server.ask("POST", "/v1/jobs", { name: "drawn", schedule: { every: "1s" }, target: { http: { url: `${hooks.url}/drawn` } } });
  await page.goto("/jobs/drawn");
  await page.getByLabel("Verdicts of the last occurrences").getByRole("link").nth(1).waitFor();
  for (const name of ["Duration", "Lateness"]) await panel(name).locator("canvas").waitFor();
});

test("a run's page has its attempts on a line of time, and its output is searched", async () => {
  const long = "needle ".padEnd(300, "hay ") + "NEEDLE";
  const made = await server.ask("POST", "/v1/jobs", { target: { http: { url: `${hooks.url}/said` } }, payload: { long } });
  await server.ask("GET", `/v1/runs/${made.run_id}?wait=20s`);
  await page.goto(`/runs/${made.run_id}`);
  await page.getByRole("img", { name: /^Attempt 1: succeeded, began after 0 ms, took/ }).waitFor();
  await page.getByLabel("Search in the output").fill("needle");
  await page.getByRole("status").getByText("2 found").waitFor();
  assert.equal(await page.getByLabel("the output", { exact: true }).locator("mark").count(), 2);
});

test("dead letters are discarded, at a rate", async () => {
  await page.goto("/dead-letters");
  const table = page.getByRole("table", { name: "Dead runs" });
  await table.getByRole("checkbox").first().check();
  await page.getByRole("button", { name: "Discard 1", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Per second, at most").fill("5");
  await dialog.getByRole("button", { name: "Discard them" }).click();
  await page.locator("[data-testid=operation][data-status=done]").waitFor();
  await page.getByText("No dead letters").waitFor();
  const { items } = await server.ask("GET", "/v1/runs?status=failed");
  assert.equal(items.length, 1);
});

test("the cluster's page has nodes, shards with owners and epochs, and the store", async () => {
  await page.goto("/cluster");
  await page.getByRole("img", { name: "256 shards: node 1 owns 256" }).waitFor();
  const shard = page.getByTitle(/^Shard 0: node 1, epoch \d+, \d+ commits$/);
  assert.equal(await shard.count(), 1);
  await page.getByRole("columnheader", { name: "Last takeover" }).waitFor();
  await panel("Store").getByText("answers", { exact: true }).waitFor();
  await panel("Store").getByText("Durability").waitFor();
});

test("no complaint of the browser, no request to another host", () => {
  assert.deepEqual(web.complaints, []);
});
