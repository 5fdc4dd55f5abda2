// How fast the page is usable, and what 2,000 events per second do to it: `node scripts/measure.mjs`.
// The events come from a stand-in for /v1/events, at a known rate; everything else is the real server.
import http from "node:http";
import { browse, serve } from "../e2e/world.mjs";

const [PER_SECOND, SECONDS, STEP_MS] = [Number(process.argv[2] ?? 2_000), Number(process.argv[3] ?? 15), 20];
const LOADS = 7;
const server = await serve();
const web = await browse();
const back = new URL(server.url);
for (let n = 0; n < 40; n += 1) {
  await server.ask("POST", "/v1/jobs", { name: `job-${n}`, schedule: { every: "1h" }, target: { worker: { kind: "k" } } });
}
const { items } = await server.ask("GET", "/v1/jobs?limit=40");
let sent = 0;

function stream(response) {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const types = ["run.ready", "run.started", "run.succeeded", "run.ready", "run.started", "run.retrying"];
  const began = performance.now();
  let here = 0;
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - began) / 1_000) * PER_SECOND);
    let text = "";
    for (; here < due; here += 1) {
      const { id } = items[here % items.length];
      const type = types[here % types.length];
      const data = { at: new Date().toISOString(), job_id: id, queue: "default", run_id: `run_${id.slice(4)}_t${here}`, type };
      text += `id: x-${here}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
    }
    sent = here;
    response.write(text);
  }, STEP_MS);
  response.on("close", () => clearInterval(timer));
}

const front = http.createServer((request, response) => {
  if (request.url.startsWith("/v1/events")) {
    stream(response);
    return;
  }
  const { hostname, port } = back;
  const forward = http.request({ hostname, port, path: request.url, method: request.method, headers: request.headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  forward.on("error", () => response.destroy());
  response.on("close", () => forward.destroy());
  request.pipe(forward);
});
await new Promise((resolve) => front.listen(0, "127.0.0.1", resolve));

try {
  const usable = [];
  for (let n = 0; n < LOADS; n += 1) {
    const fresh = await web.open(server.url);
    // Usable: the page is drawn, with its numbers, and the main thread has time for a person.
    await fresh.addInitScript(() => {
      const look = new MutationObserver(() => {
        if (!document.querySelector(".tile .value")) return;
        look.disconnect();
        window.requestIdleCallback(() => (window.usable = performance.now()));
      });
      look.observe(document, { childList: true, subtree: true });
    });
    await fresh.goto("/");
    await fresh.waitForFunction(() => window.usable !== undefined);
    usable.push(await fresh.evaluate(() => window.usable));
    await fresh.context().close();
  }
  usable.sort((a, b) => a - b);
  console.log(`usable after ${Math.round(usable[Math.floor(LOADS / 2)])} ms (median of ${LOADS} first loads), at most ${Math.round(usable[LOADS - 1])} ms`);

  const first = await web.open(server.url);
  await first.goto("/");
  await first.getByRole("heading", { name: "Overview" }).waitFor();
  const load = await first.evaluate(() => {
    const entries = [...performance.getEntriesByType("resource"), ...performance.getEntriesByType("navigation")];
    const files = entries.filter((one) => !new URL(one.name).pathname.startsWith("/v1/") && !one.name.endsWith("/metrics"));
    const painted = performance.getEntriesByName("first-contentful-paint")[0];
    return {
      kilobytes: Math.ceil(files.reduce((sum, one) => sum + one.encodedBodySize, 0) / 1024),
      contentMs: Math.round(painted?.startTime ?? 0),
    };
  });
  console.log(`first load: ${load.kilobytes} KB compressed, content after ${load.contentMs} ms`);
  await first.context().close();

  const page = await web.open(`http://127.0.0.1:${front.address().port}`);
  await page.addInitScript(() => {
    window.long = [];
    new PerformanceObserver((list) => list.getEntries().forEach((one) => window.long.push(one.duration))).observe({ type: "longtask", buffered: true });
  });
  await page.goto("/");
  await page.locator(".feed li").first().waitFor();
  await page.evaluate(() => (window.long.length = 0));
  const answers = [];
  const until = performance.now() + SECONDS * 1_000;
  while (performance.now() < until) {
    // From a key until the next frame: what a person feels.
    answers.push(
      await page.evaluate(
        () =>
          new Promise((resolve) => {
            const began = performance.now();
            requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - began)));
          }),
      ),
    );
  }
  const long = await page.evaluate(() => window.long);
  const shown = await page.locator(".tile .value").first().textContent();
  answers.sort((a, b) => a - b);
  const at = (q) => Math.round(answers[Math.min(answers.length - 1, Math.floor(q * answers.length))]);
  console.log(`${sent} events in ${SECONDS} s (${PER_SECOND}/s asked for); the page shows ${shown.trim()} fires`);
  console.log(`two frames took p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, at most ${at(1)} ms`);
  console.log(`long tasks (over 50 ms): ${long.length}, the longest ${Math.round(Math.max(0, ...long))} ms`);
} finally {
  await web.close();
  front.closeAllConnections();
  front.close();
  await server.stop();
}
