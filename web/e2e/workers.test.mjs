// Workers in the dashboard: real ones, from the SDKs, and the code that the page gives to whoever has none.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browse, receive, runCode, scripts, serve } from "./world.mjs";

let server, hooks, web, page, folder;
const children = [];

before(async () => {
  folder = scripts();
  hooks = await receive();
  server = await serve();
  web = await browse();
  page = await web.open(server.url);
});

after(async () => {
  await Promise.all(children.map((child) => child.stop("SIGKILL")));
  await web?.close();
  await server?.stop();
  await hooks?.stop();
});

const start = (language, code) => {
  const child = runCode(language, code, folder);
  children.push(child);
  return child;
};
const dialog = () => page.getByRole("dialog");
const button = (name) => page.getByRole("button", { name, exact: true });
const snippet = async (language) => {
  await page.getByRole("tab", { name: { python: "Python", typescript: "TypeScript", curl: "curl", cli: "CLI" }[language] }).click();
  return page.locator(`[data-testid=snippet][data-language=${language}]`).textContent();
};

for (const language of ["python", "typescript"]) {
  test(`without workers the page teaches, and its ${language} runs as it is written`, async () => {
    await page.goto("/workers");
    await page.getByText("No worker has been heard of").waitFor();
    const worker = start(language, await snippet(language));
    // It is noticed by itself, and a job for it is one press away.
    await page.getByRole("table", { name: "Workers" }).getByText("active").waitFor();
    await page.goto("/jobs/new?target=worker&kind=hello&payload=" + encodeURIComponent('{"name": "world"}'));
    await button("Create job").click();
    await page.getByTestId("made").getByRole("link", { name: "at its run" }).click();
    await page.locator(".head").getByText("succeeded").waitFor();
    await page.getByText("hello world").first().waitFor();
    const { code } = await worker.stop();
    assert.equal(code, 0, "it drains and leaves when it is told to stop");
    await page.goto("/workers");
    await page.getByText("No worker has been heard of").waitFor();
  });
}

const LONG = (url, hook) => `
import { Worker } from "duly-client";
const worker = new Worker({
  url: "${url}", name: "billing-1", version: "2.3.1", labels: { zone: "a" }, queues: ["bills"], concurrency: 4, lease: "3s", grace: "1s",
});
worker.handle("bill", async (payload, context) => {
  await fetch("${hook}/slow", { signal: context.signal });
});
await worker.run();
`;

test("a worker is shown with its load and what it holds, and is drained", async () => {
  const worker = start("typescript", LONG(server.url, hooks.url));
  const made = await server.ask("POST", "/v1/jobs", { queue: "bills", target: { worker: { kind: "bill" } } });
  await page.goto("/workers");
  const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: "billing-1" }) });
  await row.getByText("1 of 4").waitFor();
  await row.getByText("version 2.3.1").waitFor();
  await row.getByText("zone:a").waitFor();
  await row.getByRole("link", { name: "billing-1" }).click();
  await page.getByRole("table", { name: "Runs that it holds" }).locator(`a[href="/runs/${made.run_id}"]`).waitFor();

  // The run says who holds it, with which token, and leads back.
  await page.goto(`/runs/${made.run_id}`);
  const { token } = await server.ask("GET", `/v1/runs/${made.run_id}`);
  assert.equal(await page.getByTestId("token").textContent(), String(token));
  await page.getByText("Must end by").waitFor();
  await page.getByText("held by the worker billing-1").waitFor();
  await page.locator("dl").getByRole("link", { name: "billing-1" }).click();

  await button("Drain").click();
  await dialog().getByRole("button", { name: "Leave it" }).click();
  assert.equal((await server.ask("GET", "/v1/workers/billing-1")).status, "active", "asking is not doing");
  await button("Drain").click();
  await dialog().getByLabel("Take nothing more").check();
  await dialog().getByRole("button", { name: "Drain it" }).click();
  await page.locator(".head").getByText("takes nothing more").waitFor();
  await button("Let it work").click();
  await dialog().getByRole("button", { name: "Let it work" }).click();
  await page.locator(".head").getByText("active").waitFor();
  await button("Drain").click();
  await dialog().getByRole("button", { name: "Drain it" }).click();
  assert.equal((await worker.ended).code, 0, "it went by itself");
  await page.getByText("This worker is not known now.").waitFor();
  assert.equal((await server.ask("GET", `/v1/runs/${made.run_id}`)).status, "ready", "what it held was handed back");
});

test("a queue's page shows its numbers and who takes from it", async () => {
  await server.ask("POST", "/v1/work/claim", { worker: "taker", queues: ["orders"], wait: "0s", about: { capacity: 2, running: 0 } });
  await server.ask("POST", "/v1/jobs", { queue: "orders", target: { worker: { kind: "order" } } });
  await page.goto("/queues");
  await page.getByRole("link", { name: "orders" }).click();
  await page.locator(".tile", { hasText: "Ready" }).getByText("1", { exact: true }).waitFor();
  await page.getByRole("table", { name: "Workers that take from it" }).getByRole("link", { name: "taker" }).waitFor();
  await button("Pause").click();
  await dialog().getByLabel("Reason").fill("stocktaking");
  await dialog().getByRole("button", { name: "Pause the queue" }).click();
  await page.locator(".head").getByText("stocktaking").waitFor();
  await button("Resume").click();
  await dialog().getByRole("button", { name: "Resume the queue" }).click();
  await button("Pause").waitFor();
});

/** Text that would end a string, or begin something, in each of the languages. */
const HARD = { text: "it's \"so\" \\ $HOME `x` ${y} %s\n\u2028\u202e <img>", n: -5, big: 5_000_000_000, yes: true, nothing: null, list: [[], {}] };

test("the same as code makes the same job, in each language", async () => {
  await page.goto("/jobs/new");
  await page.getByLabel("Payload", { exact: true }).fill(JSON.stringify(HARD));
  await page.getByRole("radio", { name: "Worker" }).click();
  await page.getByLabel("Kind", { exact: true }).fill("it's");
  await page.getByRole("radio", { name: "Cron" }).click();
  await page.getByLabel("Time zone", { exact: true }).fill("Europe/Zurich");
  await page.getByLabel("Tags", { exact: true }).fill("team:billing, say:it's so");
  await page.getByLabel("Queue", { exact: true }).fill("night work");
  await button("Create job").click();
  const href = await page.getByTestId("made").getByRole("link", { name: "Look at the job" }).getAttribute("href");
  const whole = async (id) => {
    const { target, schedule, payload, tags, queue, retry, catch_up, overlap } = await server.ask("GET", `/v1/jobs/${id}`);
    return { target, schedule, payload, tags, queue, retry, catch_up, overlap };
  };
  const wanted = await whole(href.split("/").pop());
  assert.deepEqual(wanted.payload, HARD);
  for (const language of ["python", "typescript", "curl", "cli"]) {
    const { code, text } = await start(language, await snippet(language)).ended;
    assert.equal(code, 0, `${language}: ${text}`);
    const id = /job_[0-9a-z]{26}/.exec(text)?.[0];
    assert.deepEqual(await whole(id), wanted, language);
  }
});

test("no complaint of the browser, no request to another host", () => {
  assert.deepEqual(web.complaints, []);
});
