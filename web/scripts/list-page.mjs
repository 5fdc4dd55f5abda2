// How long a page of a long list takes: `node scripts/list-page.mjs [JOBS]` fills an embedded store with so many
// recurring jobs, then asks for pages as the dashboard does, and looks at them in the browser. DULY_BIN names the
// binary; the release build is what should be measured. 5,000,000 jobs need about 5 GB of disk and some minutes; with
// DULY_LIST_FOLDER they are kept there, and the next measurement with as many jobs begins at once.
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { browse, serve } from "../e2e/world.mjs";

const JOBS = Number(process.argv[2] ?? 5_000_000);
const [BATCH, AT_ONCE, ASKED, DEEP, RETRIES_MAX] = [5_000, 2, 40, 200, 600];
const kept = process.env.DULY_LIST_FOLDER;
if (kept) mkdirSync(kept, { recursive: true });
const filledBefore = kept && existsSync(join(kept, `filled-${JOBS}`));
const server = await serve({ kept });
const web = await browse();

/** One in a thousand has a name: names are reserved one by one. */
function batch(from) {
  const lines = [];
  for (let n = from; n < Math.min(from + BATCH, JOBS); n += 1) {
    lines.push(
      JSON.stringify({
        ...(n % 1_000 === 0 ? { name: `${n % 2_000 === 0 ? "invoice" : "report"}-${n}` } : {}),
        schedule: { cron: `${n % 60} ${n % 24} 1 1 *`, timezone: "Europe/Zurich" },
        target: { http: { url: `http://127.0.0.1:9/${n % 1_000}` } },
        owner: `team-${n % 50}@example.com`,
        // One job in the whole list has the tag `rare`, and it is the oldest: whoever asks for it has to be told.
        tags: { team: `team-${n % 50}`, tier: n % 3 === 0 ? "gold" : "blue", ...(n === 0 ? { rare: "yes" } : {}) },
        queue: `queue-${n % 100}`,
      }),
    );
  }
  return lines.join("\n");
}

async function submit(from) {
  for (let n = 0; n < RETRIES_MAX; n += 1) {
    const response = await fetch(`${server.url}/v1/jobs/batch`, { method: "POST", headers: { "content-type": "application/x-ndjson" }, body: batch(from) });
    const answer = await response.json();
    if (response.status === 429 || response.status === 503) {
      await new Promise((resolve) => setTimeout(resolve, 200));
      continue;
    }
    const refused = answer.results?.find((one) => one.status !== 202);
    if (!response.ok || refused) throw new Error(JSON.stringify(refused ?? answer));
    return;
  }
  throw new Error(`jobs from ${from} on were put off ${RETRIES_MAX} times`);
}

async function fill() {
  const began = performance.now();
  let next = 0;
  const some = async () => {
    while (next < JOBS) {
      const from = next;
      next += BATCH;
      await submit(from);
      if (from % (50 * BATCH) === 0) console.log(`${from} jobs after ${Math.round((performance.now() - began) / 1_000)} s`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, some));
  const took = (performance.now() - began) / 1_000;
  const bytes = readdirSync(server.data).reduce((sum, name) => sum + statSync(join(server.data, name)).size, 0);
  console.log(`${JOBS} jobs in ${Math.round(took)} s (${Math.round(JOBS / took)}/s), ${(bytes / 2 ** 30).toFixed(2)} GiB`);
  if (kept) writeFileSync(join(kept, `filled-${JOBS}`), "");
}

async function asked(path) {
  const began = performance.now();
  const response = await fetch(server.url + path);
  const answer = await response.json();
  if (!response.ok) throw new Error(`${path}: ${JSON.stringify(answer)}`);
  return { took: performance.now() - began, answer };
}

function said(name, took, rows, more = "") {
  took.sort((a, b) => a - b);
  const at = (part) => took[Math.min(took.length - 1, Math.floor(took.length * part))].toFixed(1);
  console.log(`${name}: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, at most ${at(1)} ms, ${rows} rows${more}`);
}

/** The same page, again and again. */
async function timed(name, path) {
  const took = [];
  let last;
  for (let n = 0; n < ASKED; n += 1) {
    const one = await asked(path);
    took.push(one.took);
    last = one.answer;
  }
  said(name, took, last.items.length, last.next_cursor ? "" : ", the last page");
  return last;
}

/** One page after the other, each asked for once: nothing of it was read before. */
async function paged(name, path) {
  const took = [];
  let rows = 0;
  let cursor;
  for (let n = 0; n < DEEP; n += 1) {
    const one = await asked(`${path}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
    took.push(one.took);
    rows += one.answer.items.length;
    cursor = one.answer.next_cursor;
    if (!cursor) break;
  }
  said(name, took, rows, ` in ${took.length} pages`);
}

/** From the press on "Next page" until its rows are drawn. */
async function drawn(page) {
  const table = page.getByRole("table", { name: "Jobs" });
  const before = await table.getByRole("link").first().getAttribute("href");
  return page.evaluate(
    (former) =>
      new Promise((resolve) => {
        const start = performance.now();
        const look = new MutationObserver(() => {
          const link = document.querySelector("table[aria-label=Jobs] tbody a");
          if (!link || link.getAttribute("href") === former) return;
          look.disconnect();
          requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - start)));
        });
        look.observe(document.body, { childList: true, subtree: true, attributes: true });
        [...document.querySelectorAll("button")].find((one) => one.textContent === "Next page").click();
      }),
    before,
  );
}

try {
  if (!filledBefore) await fill();
  const load = () => loadavg().map((one) => one.toFixed(2)).join(" ");
  console.log(`load: ${load()}`);
  await timed("first page", "/v1/jobs?limit=50");
  const questions = {
    "of a state": "status=active",
    "of a queue": "queue=queue-7",
    "of an owner": "owner=team-7@example.com",
    "of a tag": "tag=team:team-7",
    "of a prefix of names": "q=invoice-",
    "of a prefix of few names": "q=invoice-49",
    "of a queue and a tag": "queue=queue-7&tag=tier:gold",
    "of a state nobody is in": "status=paused",
    "of a tag nobody has": "tag=team:nobody",
    "of a tag that the oldest has": "tag=rare:yes",
    "of a text that is nowhere": "q=nothing-has-this",
  };
  for (const [name, query] of Object.entries(questions)) await timed(name, `/v1/jobs?limit=50&${query}`);
  await paged("one page after the other", "/v1/jobs?limit=50");
  await paged("the same, 1,000 jobs each", "/v1/jobs?limit=1000");
  await paged("the same of a tag", "/v1/jobs?limit=50&tag=team:team-7");
  const oldest = await asked("/v1/jobs?limit=50&tag=rare:yes");
  console.log(`the oldest job: ${oldest.answer.items.length} rows on the first page`);

  const page = await web.open(server.url);
  await page.goto("/jobs");
  await page.getByRole("table", { name: "Jobs" }).getByRole("row").nth(50).waitFor();
  const shown = [];
  for (let n = 0; n < ASKED; n += 1) shown.push(await drawn(page));
  said('in the browser, from the press on "Next page" until its rows are drawn', shown, 50 * ASKED);
  console.log(`load: ${load()}`);
} finally {
  await web.close();
  await server.stop();
}
