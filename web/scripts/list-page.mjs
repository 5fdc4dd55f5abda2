// How long a page of a long list takes: `node scripts/list-page.mjs [JOBS]` fills an embedded store with so many
// recurring jobs, then asks for pages as the dashboard does, and looks at them in the browser. DULY_BIN names the
// binary; the release build is what should be measured. 5,000,000 jobs need about 3 GB of disk and some minutes.
import { statSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { browse, serve } from "../e2e/world.mjs";

const JOBS = Number(process.argv[2] ?? 5_000_000);
const [BATCH, AT_ONCE, ASKED] = [5_000, 2, 40];
const server = await serve();
const web = await browse();

function batch(from) {
  const lines = [];
  for (let n = from; n < Math.min(from + BATCH, JOBS); n += 1) {
    lines.push(
      JSON.stringify({
        schedule: { cron: `${n % 60} ${n % 24} 1 1 *`, timezone: "Europe/Zurich" },
        target: { http: { url: `http://127.0.0.1:9/${n % 1_000}` } },
        owner: `team-${n % 50}@example.com`,
        tags: { team: `team-${n % 50}`, tier: n % 3 === 0 ? "gold" : "blue" },
        queue: `queue-${n % 100}`,
      }),
    );
  }
  return lines.join("\n");
}

/** The time of each of some requests, in milliseconds. */
async function timed(path, times = ASKED) {
  const took = [];
  let last;
  for (let n = 0; n < times; n += 1) {
    const began = performance.now();
    const response = await fetch(server.url + path);
    last = await response.json();
    took.push(performance.now() - began);
    if (!response.ok) throw new Error(`${path}: ${JSON.stringify(last)}`);
  }
  took.sort((a, b) => a - b);
  return { p50: took[Math.floor(times / 2)], max: took[times - 1], last };
}

try {
  const began = performance.now();
  let next = 0;
  const fill = async () => {
    while (next < JOBS) {
      const from = next;
      next += BATCH;
      for (;;) {
        const response = await fetch(`${server.url}/v1/jobs/batch`, { method: "POST", headers: { "content-type": "application/x-ndjson" }, body: batch(from) });
        const answer = await response.json();
        if (response.status === 429 || response.status === 503) {
          await new Promise((resolve) => setTimeout(resolve, 200));
          continue;
        }
        const refused = answer.results?.find((one) => one.status !== 202);
        if (!response.ok || refused) throw new Error(JSON.stringify(refused ?? answer));
        break;
      }
      if (from % (50 * BATCH) === 0) console.log(`${from} jobs after ${Math.round((performance.now() - began) / 1_000)} s`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, fill));
  const filled = (performance.now() - began) / 1_000;
  const bytes = readdirSync(server.data).reduce((sum, name) => sum + statSync(join(server.data, name)).size, 0);
  console.log(`${JOBS} jobs in ${Math.round(filled)} s (${Math.round(JOBS / filled)}/s), ${(bytes / 2 ** 30).toFixed(2)} GiB`);

  const first = await timed("/v1/jobs?limit=50");
  const cursor = encodeURIComponent(first.last.next_cursor);
  const questions = {
    "first page": "/v1/jobs?limit=50",
    "second page": `/v1/jobs?limit=50&cursor=${cursor}`,
    "of a state": "/v1/jobs?limit=50&status=active",
    "of a queue": "/v1/jobs?limit=50&queue=queue-7",
    "of an owner": "/v1/jobs?limit=50&owner=team-7@example.com",
    "of a tag": "/v1/jobs?limit=50&tag=team:team-7",
    "of a state nobody is in": "/v1/jobs?limit=50&status=paused",
    "of a text that is rare": "/v1/jobs?limit=50&q=nothing-has-this",
  };
  for (const [name, path] of Object.entries(questions)) {
    const { p50, max, last } = await timed(path);
    console.log(`${name}: p50 ${p50.toFixed(1)} ms, at most ${max.toFixed(1)} ms, ${last.items.length} rows${last.next_cursor ? "" : ", the last page"}`);
  }

  const page = await web.open(server.url);
  await page.goto("/jobs");
  await page.getByRole("table", { name: "Jobs" }).getByRole("row").nth(50).waitFor();
  const shown = [];
  for (let n = 0; n < ASKED; n += 1) {
    const before = await page.getByRole("table", { name: "Jobs" }).getByRole("link").first().getAttribute("href");
    const took = await page.evaluate(
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
    shown.push(took);
  }
  shown.sort((a, b) => a - b);
  console.log(`in the browser, from the press on "Next page" until its rows are drawn: p50 ${Math.round(shown[ASKED / 2])} ms, at most ${Math.round(shown[ASKED - 1])} ms`);
} finally {
  await web.close();
  await server.stop();
}
