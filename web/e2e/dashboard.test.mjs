// The dashboard in a real browser against the real binary.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { browse, duly, receive, serve } from "./world.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const EVIL = "<img src=x onerror=window.pwned=1>";
const HOUR = { delay: "1h" };

let server, hooks, web, page;

before(async () => {
  hooks = await receive();
  server = await serve({ args: ["--allow-command", "/bin/echo"] });
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
const dialog = () => page.getByRole("dialog");
const choose = (group, name) => page.getByRole("radio", { name, exact: true }).and(page.getByLabel(group).getByRole("radio")).click();

/** Fills in the form of a new job and sends it; the id comes from the link to the job. */
async function create(fill) {
  await page.goto("/jobs/new");
  await fill();
  await button("Create job").click();
  const made = page.getByTestId("made");
  await made.waitFor();
  const href = await made.getByRole("link", { name: "Look at the job" }).getAttribute("href");
  return decodeURIComponent(href.split("/").pop());
}

async function goneWell(id) {
  await page.goto(`/jobs/${id}`);
  await page.getByRole("table", { name: "Runs of this job" }).getByText("succeeded").first().waitFor();
}

test("an empty server teaches how to begin", async () => {
  await page.goto("/");
  await page.getByText("Make the first job").waitFor();
  await page.goto("/jobs");
  await page.getByText("No jobs yet").waitFor();
  await page.goto("/dead-letters");
  await page.getByText("No dead letters").waitFor();
  await page.goto("/queues");
  await page.getByText("No queue has been used yet").waitFor();
});

test("a webhook for now is made, fires and is shown", async () => {
  const id = await create(async () => {
    await field("URL").fill(`${hooks.url}/now`);
    await field("Payload").fill('{"hello": "world"}');
  });
  await goneWell(id);
  assert.deepEqual(JSON.parse(hooks.heard.find((one) => one.path === "/now").body), { hello: "world" });
});

test("a webhook can be tried before it is a job", async () => {
  await page.goto("/jobs/new");
  await field("URL").fill(`${hooks.url}/tried`);
  await button("Call it now").click();
  await page.getByTestId("tested").getByText("HTTP 200").waitFor();
});

test("each kind of schedule has its form", async () => {
  const webhook = () => field("URL").fill(`${hooks.url}/kinds`);
  const delayed = await create(async () => {
    await webhook();
    await choose("Kind of schedule", "After a delay");
    await field("Delay").fill("1s");
    await page.getByTestId("preview").getByRole("time").first().waitFor();
  });
  await goneWell(delayed);
  const at = await create(async () => {
    await webhook();
    await choose("Kind of schedule", "At an instant");
    await field("Instant, in your time zone").fill("2031-05-06T07:08:09");
    await page.getByTestId("preview").getByText("2031").first().waitFor();
  });
  const job = await server.ask("GET", `/v1/jobs/${at}`);
  assert.equal(new Date(job.schedule.at).getTime(), new Date(2031, 4, 6, 7, 8, 9).getTime());
  const cron = await create(async () => {
    await webhook();
    await field("Name").fill("nightly");
    await choose("Kind of schedule", "Cron");
    await field("Cron expression").fill("30 2 * * *");
    await field("Time zone").fill("Europe/Zurich");
    await page.getByTestId("preview").getByText("At 02:30, Europe/Zurich").waitFor();
    await page.getByTestId("preview").getByText("does not exist").first().waitFor();
  });
  assert.equal((await server.ask("GET", `/v1/jobs/${cron}`)).schedule.timezone, "Europe/Zurich");
});

test("each kind of target has its form", async () => {
  const later = async () => {
    await choose("Kind of schedule", "After a delay");
    await field("Delay").fill("1h");
  };
  const targets = {
    Worker: async () => field("Kind").fill("bill"),
    "Redis stream": async () => {
      await field("Server").fill("redis://127.0.0.1:6379");
      await field("Stream").fill("jobs");
    },
    RabbitMQ: async () => {
      await field("Server").fill("amqp://127.0.0.1:5672");
      await field("Routing key").fill("jobs");
    },
  };
  for (const [name, fill] of Object.entries(targets)) {
    const id = await create(async () => {
      await choose("Kind of target", name);
      await fill();
      await later();
    });
    assert.equal((await server.ask("GET", `/v1/jobs/${id}`)).status, "scheduled", name);
  }
  const command = await create(async () => {
    await choose("Kind of target", "Command");
    await field("Program and arguments").fill("/bin/echo\nhello there");
  });
  await goneWell(command);
});

test("what the server refuses stands at its field", async () => {
  await page.goto("/jobs/new");
  await field("URL").fill("ftp://nowhere/");
  await choose("Kind of schedule", "Cron");
  await field("Cron expression").fill("0 25 * * *");
  await page.getByTestId("preview").getByText("25 is out of range").waitFor();
  await field("Name").fill(EVIL);
  await button("Create job").click();
  await page.getByRole("alert").getByText("The server refused it.").waitFor();
  for (const [label, says] of [["URL", "http://"], ["Cron expression", "25 is out of range"], ["Name", "a-z, 0-9"]]) {
    const input = field(label);
    assert.equal(await input.getAttribute("aria-invalid"), "true", label);
    const said = await page.locator(`[id="${await input.getAttribute("aria-describedby")}"]`).textContent();
    assert.ok(said.includes(says), `${label}: ${said}`);
  }
  await field("Name").fill("");
  await field("Payload").fill("{");
  await button("Create job").click();
  await page.getByText("this is not JSON").waitFor();
});

test("a recurring job is watched while it fires", async () => {
  const id = await create(async () => {
    await field("Name").fill("ticker");
    await field("URL").fill(`${hooks.url}/tick`);
    await choose("Kind of schedule", "Every so often");
    await field("Every").fill("1s");
  });
  await page.goto(`/jobs/${id}`);
  const strip = page.getByLabel("Verdicts of the last occurrences").getByRole("link");
  // Nothing is loaded again by hand: events bring each one.
  await strip.nth(2).waitFor();
  await page.goto("/");
  await page.getByText("Just happened").waitFor();
  await page.locator(".feed").getByRole("link", { name: "ticker" }).first().waitFor();
  await page.locator(".tile", { hasText: "Fires" }).filter({ hasNotText: /Fires0 / }).first().waitFor();
});

test("a job is changed, paused, resumed, triggered and backfilled", async () => {
  const made = await server.ask("POST", "/v1/jobs", {
    name: "changing",
    schedule: { every: "1h" },
    target: { http: { url: `${hooks.url}/changing` } },
    payload: { n: 1 },
  });
  await page.goto("/jobs/changing");
  await page.getByRole("tab", { name: "Edit" }).click();
  await field("Every").fill("2h");
  await page.getByTestId("preview").getByText("2 hours").waitFor();
  await page.getByLabel("The patch").getByText('"every": "2h"').waitFor();
  await button("Save changes").click();
  await page.getByText("Saved as version 2.").waitFor();
  assert.equal((await server.ask("GET", `/v1/jobs/${made.id}`)).schedule.every, "2h");
  await button("Pause").click();
  await dialog().getByLabel("Reason").fill("a quiet day");
  await dialog().getByRole("button", { name: "Pause" }).click();
  await page.getByText("a quiet day").waitFor();
  await button("Resume").click();
  await dialog().getByRole("button", { name: "Resume" }).click();
  await button("Pause").waitFor();
  await button("Trigger").click();
  await dialog().getByLabel("Payload").fill('{"n": 42}');
  await dialog().getByRole("button", { name: "Run it now" }).click();
  await page.getByRole("tab", { name: "Activity" }).click();
  await page.getByRole("table", { name: "Runs of this job" }).getByText("succeeded").first().waitFor();
  assert.ok(hooks.heard.some((one) => one.path === "/changing" && JSON.parse(one.body).n === 42));
  await button("Backfill").click();
  await page.getByTestId("dry-run").getByText("would be made").waitFor();
  await dialog().getByRole("button", { name: "Start the backfill" }).click();
  await page.locator("[data-testid=operation][data-status=done]").waitFor();
});

test("a running one is cancelled", async () => {
  const made = await server.ask("POST", "/v1/jobs", { target: { http: { url: `${hooks.url}/slow` } }, timeout: "10m" });
  await page.goto(`/runs/${made.run_id}`);
  await page.locator(".head").getByText("running").waitFor();
  await page.getByText("It is running: attempt 1").waitFor();
  await button("Cancel run").click();
  await dialog().getByRole("button", { name: "Cancel it" }).click();
  await page.locator(".head").getByText("cancelled").waitFor();
});

test("dead letters are replayed by choice, by group and by filter", async () => {
  hooks.state.broken = true;
  const [runs, jobs] = [[], []];
  for (let n = 0; n < 3; n += 1) {
    const made = await server.ask("POST", "/v1/jobs", {
      queue: "fragile",
      target: { http: { url: `${hooks.url}/broken` } },
      retry: { max_retries: 0 },
    });
    runs.push(made.run_id);
    jobs.push(made.id);
    await server.ask("GET", `/v1/runs/${made.run_id}?wait=20s`);
  }
  await page.goto("/dead-letters?queue=fragile");
  const table = page.getByRole("table", { name: "Dead runs" });
  await table.getByRole("checkbox").nth(2).waitFor();
  hooks.state.broken = false;
  await page.getByRole("checkbox", { name: `Choose ${runs[0]}` }).check();
  await button("Replay 1").click();
  await dialog().getByRole("button", { name: "Replay them" }).click();
  await page.locator("[data-testid=operation][data-status=done]").waitFor();
  await page.getByRole("checkbox", { name: `Choose ${runs[0]}` }).waitFor({ state: "detached" });
  const groups = page.getByRole("table", { name: "Groups of dead letters" });
  const group = groups.getByRole("row").filter({ has: page.locator(`a[href="/jobs/${jobs[1]}"]`) });
  const before = new URL(page.url()).searchParams.get("operation");
  await group.getByRole("button", { name: "Replay group" }).click();
  await dialog().getByRole("button", { name: "Replay them" }).click();
  await page.waitForURL((url) => url.searchParams.get("operation") !== before);
  await page.locator("[data-testid=operation][data-status=done]").waitFor();
  await page.getByRole("checkbox", { name: `Choose ${runs[1]}` }).waitFor({ state: "detached" });
  await button("Replay all that match").click();
  await dialog().getByText("1 dead run.").waitFor();
  await dialog().getByRole("button", { name: "Replay them" }).click();
  await page.getByText("No dead run is like this").or(page.getByText("No dead letters")).waitFor();
  for (const run of runs) {
    await page.goto(`/runs/${run}`);
    await page.locator(".head").getByText("succeeded").waitFor();
  }
});

test("a dead run is replayed from its page", async () => {
  hooks.state.broken = true;
  const made = await server.ask("POST", "/v1/jobs", { target: { http: { url: `${hooks.url}/broken` } }, retry: { max_retries: 0 } });
  await page.goto(`/runs/${made.run_id}`);
  await page.locator(".head").getByText("dead").waitFor();
  await page.goto("/dead-letters");
  await page.getByRole("table", { name: "Groups of dead letters" }).getByRole("button", { name: "Replay group" }).first().waitFor();
  await page.goto(`/runs/${made.run_id}`);
  hooks.state.broken = false;
  await button("Replay").click();
  await dialog().getByRole("button", { name: "Replay it" }).click();
  await page.locator(".head").getByText("succeeded").waitFor();
});

test("a queue is paused and resumed", async () => {
  await server.ask("POST", "/v1/jobs", { queue: "slowly", schedule: HOUR, target: { worker: { kind: "k" } } });
  await page.goto("/queues");
  const row = page.getByRole("row", { name: "slowly" });
  await row.getByRole("button", { name: "Pause" }).click();
  await dialog().getByLabel("Reason").fill("maintenance");
  await dialog().getByRole("button", { name: "Pause the queue" }).click();
  await row.getByText("maintenance").waitFor();
  await row.getByRole("button", { name: "Resume" }).click();
  await dialog().getByRole("button", { name: "Resume the queue" }).click();
  await row.getByRole("button", { name: "Pause" }).waitFor();
});

test("everything is held and released, and another page sees it", async () => {
  await page.goto("/");
  await button("Hold everything").click();
  await dialog().getByLabel("Reason").fill("a deploy");
  await dialog().getByRole("button", { name: "Hold" }).click();
  // The first shards say it before the last one holds; the answer comes when all do.
  await page.getByText("Held: no new attempt begins.").waitFor();
  await page.getByText("Everything is held: a deploy").waitFor();
  const made = await server.ask("POST", "/v1/jobs", { target: { http: { url: `${hooks.url}/held` } } });
  // A page that was not there when it happened lists what is held.
  const other = await web.open(server.url);
  await other.goto("/");
  await other.getByText("Everything is held: a deploy").waitFor();
  assert.equal(await other.getByRole("button", { name: "Hold everything" }).count(), 0);
  await other.goto(`/runs/${made.run_id}`);
  await other.getByText("everything is held (a deploy)").waitFor();
  await button("Release").click();
  await dialog().getByRole("button", { name: "Release" }).click();
  await other.locator(".head").getByText("succeeded").waitFor();
  await page.getByRole("button", { name: "Hold everything" }).waitFor();
  await other.context().close();
});

test("holds of queues are listed on a fresh page, and released there", async () => {
  await server.ask("POST", "/v1/hold", { scope: { queue: "printer" }, reason: "out of paper" });
  await page.goto("/");
  const held = page.getByLabel("Held", { exact: true });
  await held.getByText("Queue printer is paused: out of paper").waitFor();
  // Something else can still be held, for as long as somebody says.
  await button("Hold everything").click();
  await dialog().getByLabel("Reason").fill("a short test");
  await dialog().getByLabel("Until, if it shall end by itself").fill("2031-01-02T03:04:05");
  await dialog().getByRole("button", { name: "Hold" }).click();
  await held.getByText("Everything is held: a short test").waitFor();
  await held.getByText("2031").waitFor();
  await held.getByRole("button", { name: "Release" }).click();
  await dialog().getByRole("button", { name: "Release" }).click();
  await held.getByRole("button", { name: "Resume" }).click();
  await dialog().getByRole("button", { name: "Resume the queue" }).click();
  await held.waitFor({ state: "detached" });
  assert.deepEqual((await server.ask("GET", "/v1/holds")).items, []);
});

test("a job's page says what changed since it was opened", async () => {
  await server.ask("POST", "/v1/jobs", { name: "versioned", schedule: { every: "1h" }, target: { worker: { kind: "k" } } });
  await page.goto("/jobs/versioned");
  await page.getByRole("tab", { name: "Definition" }).click();
  await page.getByText("5 retries: after 10s, then times 4, at most 1h").waitFor();
  const change = { schedule: { every: "3h" }, retry: { max_retries: 2 } };
  await server.ask("PATCH", "/v1/jobs/versioned", change, { "if-match": '"1"' });
  await page.getByText("version 1 became 2").waitFor();
  const said = JSON.parse(await page.getByLabel("What changed").textContent());
  assert.equal(said.schedule.every, "3h");
  assert.equal(said.retry.max_retries, 2);
});

test("filters are in the address, and pages follow cursors", async () => {
  for (let n = 0; n < 60; n += 1) {
    await server.ask("POST", "/v1/jobs", { name: `many-${n}`, schedule: HOUR, tags: { team: "many" }, target: { worker: { kind: "k" } } });
  }
  await page.goto("/jobs?tag=team:many");
  const rows = page.getByRole("table", { name: "Jobs" }).getByRole("row");
  await rows.nth(50).waitFor();
  await button("Next page").click();
  await page.waitForURL(/cursor=/);
  await page.getByRole("link", { name: "many-0", exact: true }).waitFor();
  await button("First page").click();
  await page.keyboard.press("/");
  await page.keyboard.type("many-42");
  await page.waitForURL(/q=many-42/);
  await page.getByRole("link", { name: "many-42" }).waitFor();
  await rows.nth(2).waitFor({ state: "detached" });
});

test("the keyboard goes everywhere", async () => {
  await page.goto("/");
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  for (const [keys, title] of [["gj", "Jobs"], ["gr", "Runs"], ["gd", "Dead letters"], ["gq", "Queues"], ["gw", "Workers"], ["gc", "Cluster"], ["go", "Overview"], ["n", "New job"]]) {
    for (const key of keys) await page.keyboard.press(key);
    await page.getByRole("heading", { name: title, level: 1 }).waitFor();
  }
  await page.goto("/cluster");
  await page.getByRole("heading", { name: "Cluster" }).waitFor();
  await page.keyboard.press("?");
  await dialog().getByText("New job").waitFor();
  await page.keyboard.press("Escape");
  await dialog().waitFor({ state: "detached" });
});

test("what strangers wrote is text", async () => {
  const made = await server.ask("POST", "/v1/jobs", {
    owner: EVIL,
    queue: EVIL,
    tags: { [EVIL]: EVIL },
    target: { http: { url: `${hooks.url}/evil` } },
    payload: { [EVIL]: EVIL },
  });
  hooks.state.broken = true;
  const dead = await server.ask("POST", "/v1/jobs", { target: { http: { url: `${hooks.url}/broken` } }, retry: { max_retries: 0 } });
  const kind = await server.ask("POST", "/v1/jobs", { target: { worker: { kind: EVIL } } });
  const about = { version: EVIL, labels: { [EVIL]: EVIL } };
  await server.ask("POST", "/v1/work/claim", { worker: EVIL, queues: [EVIL], kinds: [EVIL], wait: "0s", about });
  for (const run of [made.run_id, dead.run_id]) await server.ask("GET", `/v1/runs/${run}?wait=20s`);
  const [addresses, shows] = [
    ["/", "/jobs", `/jobs/${made.id}`, "/runs", `/runs/${made.run_id}`, `/runs/${dead.run_id}`, `/runs/${kind.run_id}`, "/dead-letters", "/queues", `/queues/${encodeURIComponent(EVIL)}`, "/workers", `/workers/${encodeURIComponent(EVIL)}`],
    new Set(["/jobs", `/runs/${made.run_id}`, `/runs/${dead.run_id}`, "/dead-letters", "/queues", "/workers", `/workers/${encodeURIComponent(EVIL)}`]),
  ];
  for (const address of addresses) {
    await page.goto(address);
    await page.getByRole("heading", { level: 1 }).waitFor();
    if (shows.has(address)) await page.getByText("onerror").first().waitFor();
    assert.equal(await page.locator("img[src='x']").count(), 0, address);
    assert.equal(await page.evaluate(() => window.pwned), undefined, address);
  }
});

/** Every page, as a stranger would open it. */
async function addresses() {
  const { items } = await server.ask("GET", "/v1/dead-letters?limit=1");
  const about = { capacity: 8, running: 3, version: "4.2.0", labels: { zone: "a", pool: "big" } };
  await server.ask("POST", "/v1/work/claim", { worker: "bills-7f9c-with-a-long-name", queues: ["bills", "mails"], kinds: ["bill"], wait: "0s", about });
  await server.ask("POST", "/v1/jobs", { queue: "bills", target: { worker: { kind: "bill" } } });
  const claimed = await server.ask("POST", "/v1/work/claim", { worker: "bills-7f9c-with-a-long-name", queues: ["bills"], kinds: ["bill"], wait: "0s", about });
  const held = claimed.runs[0]?.run_id;
  return [
    ...["/", "/jobs", "/jobs/new", "/jobs/ticker", "/runs", `/runs/${items[0].id}`, `/runs/${held}`, "/dead-letters", "/queues", "/queues/bills"],
    ...["/workers", "/workers/bills-7f9c-with-a-long-name", "/workers/gone", "/cluster", "/nowhere"],
  ];
}

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds no serious fault, ${colorScheme}`, async () => {
    const other = await web.open(server.url, { colorScheme, bypassCSP: true });
    for (const address of await addresses()) {
      await other.goto(address);
      await other.locator("h1, h3").first().waitFor();
      await other.locator("[aria-busy=true]").first().waitFor({ state: "detached" });
      await other.evaluate(axe);
      const found = await other.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
      const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
      const said = serious.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
      assert.deepEqual(said, [], address);
    }
    await other.context().close();
  });
}

test("nothing is wider than a small screen", async () => {
  const other = await web.open(server.url, { viewport: { width: 400, height: 800 } });
  for (const address of await addresses()) {
    await other.goto(address);
    await other.locator("h1, h3").first().waitFor();
    await other.locator("[aria-busy=true]").first().waitFor({ state: "detached" });
    const wider = await other.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wider <= 0, `${address}: ${wider} pixels`);
    // The line of pages scrolls to the one that is open.
    const here = other.locator(".nav [aria-current=page]");
    if ((await here.count()) > 0) {
      const { x, width } = await here.boundingBox();
      assert.ok(x >= 0 && x + width <= 400, `${address}: its name in the line of pages ends at ${x + width}`);
    }
  }
  await other.context().close();
});

test("the theme is chosen and kept", async () => {
  await page.goto("/");
  await button("Dark theme").click();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.reload();
  await button("Light theme").waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await button("Light theme").click();
});

test("with keys the page asks for one, and keeps it for the tab", async () => {
  const closed = await serve({
    before: async (data) => (await duly("key", "create", "--scope", "admin", "--data", data)).split("\n")[0].trim(),
  });
  try {
    const other = await web.open(closed.url);
    await other.goto("/jobs");
    await other.getByText("Sign in to duly").waitFor();
    await other.getByLabel("API key").fill("duly_nonsense");
    await other.getByRole("button", { name: "Sign in" }).click();
    await other.getByText("The server does not know this key.").waitFor();
    await other.getByLabel("API key").fill(closed.known);
    await other.getByRole("button", { name: "Sign in" }).click();
    await other.getByText("No jobs yet").waitFor();
    await other.locator(".pulse[data-state=live]").waitFor();
    await other.reload();
    await other.getByText("No jobs yet").waitFor();
    await other.getByRole("button", { name: "Sign out" }).click();
    await other.getByText("Sign in to duly").waitFor();
    await other.context().close();
  } finally {
    await closed.stop();
  }
});

test("no complaint of the browser, no request to another host", () => {
  assert.deepEqual(web.complaints, []);
});
