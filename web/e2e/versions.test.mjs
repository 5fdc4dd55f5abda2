// What a job was, in a real browser against the real binary: who changed what, and the way back.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { browse, serve } from "./world.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const EVIL = "<img src=x onerror=window.pwned=1>";
/** Digits that a browser's numbers cannot hold. */
const LONG = "12345678901234567890";

let server, web, page;

before(async () => {
  server = await serve();
  web = await browse();
  page = await web.open(server.url);
});

after(async () => {
  await web?.close();
  await server?.stop();
});

const of = (n) => page.getByRole("article", { name: `Version ${n}`, exact: true });
const change = (n, body) => server.ask("PATCH", "/v1/jobs/nightly", body, { "if-match": `"${n}"` });

test("versions say what changed, and one can go back to one", async () => {
  const headers = { "content-type": "application/json" };
  const body = `{"name": "nightly", "schedule": {"cron": "0 3 * * *"}, "target": {"worker": {"kind": "bill"}}, "payload": {"account": ${LONG}}}`;
  const made = await fetch(`${server.url}/v1/jobs`, { method: "POST", headers, body });
  assert.equal(made.status, 202);
  await change(1, { schedule: { cron: "0 4 * * *" }, tags: { team: EVIL } });
  await change(2, { payload: { account: 7 } });
  await page.goto("/jobs/nightly");
  await page.getByRole("tab", { name: "Versions" }).click();
  await of(3).getByText("in force").waitFor();
  await of(3).getByText("by no key").waitFor();
  await of(1).getByText("As it was made.").waitFor();
  const said = await of(2).getByLabel("What version 2 changed").innerText();
  assert.match(said, /schedule\.cron\s+0 3 \* \* \*\s+→\s+0 4 \* \* \*/);
  assert.ok(said.includes(EVIL), said);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.equal(await of(3).getByRole("button", { name: "Restore this version" }).count(), 0);

  await of(1).getByRole("button", { name: "Restore this version" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("becomes version 4").waitFor();
  await dialog.getByRole("button", { name: "Leave it" }).click();
  assert.equal((await server.ask("GET", "/v1/jobs/nightly")).version, 3);
  await of(1).getByRole("button", { name: "Restore this version" }).click();
  await dialog.getByRole("button", { name: "Restore it" }).click();
  await page.getByText("Restored as version 4.").waitFor();
  await of(4).getByText("in force").waitFor();
  const back = await fetch(`${server.url}/v1/jobs/nightly`);
  const text = await back.text();
  assert.ok(text.includes(LONG), `each digit is as it was: ${text}`);
  assert.equal(JSON.parse(text).schedule.cron, "0 3 * * *");
});

test("a change in between is not undone without being seen", async () => {
  await of(2).getByRole("button", { name: "Restore this version" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("becomes version 5").waitFor();
  // The dialog asks for what was looked at; the page itself learns of the change by its stream.
  await page.route("**/versions/2/restore", async (route) => {
    await change(4, { priority: 9 });
    await route.continue();
  });
  await dialog.getByRole("button", { name: "Restore it" }).click();
  await dialog.getByText("Somebody changed it while you looked").waitFor();
  await dialog.getByRole("button", { name: "Leave it" }).click();
  await of(5).getByText("in force").waitFor();
  assert.equal((await server.ask("GET", "/v1/jobs/nightly")).priority, 9);
});

test("axe finds no serious fault, and nothing is wider than a small screen", async () => {
  for (const options of [{ colorScheme: "light" }, { colorScheme: "dark" }, { viewport: { width: 400, height: 800 } }]) {
    const other = await web.open(server.url, { ...options, bypassCSP: true });
    await other.goto("/jobs/nightly");
    await other.getByRole("tab", { name: "Versions" }).click();
    await other.getByRole("article", { name: "Version 1", exact: true }).getByText("Definition").click();
    await other.getByLabel("Definition of version 1").waitFor();
    await other.evaluate(axe);
    const found = await other.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
    const said = serious.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
    assert.deepEqual(said, [], JSON.stringify(options));
    const wider = await other.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wider <= 0, `${JSON.stringify(options)}: ${wider} pixels`);
    await other.context().close();
  }
});

test("no complaint of the browser, no request to another host", () => {
  assert.deepEqual(web.complaints, []);
});
