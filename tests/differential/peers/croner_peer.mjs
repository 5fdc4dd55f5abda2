// Asks croner for W, #, L and weekdays counted as Quartz does. Reads the generator's lines on
// stdin and writes each with croner's answer (`theirs`); croner_report.py compares.
import { createInterface } from "node:readline";
import { Cron } from "croner";

const date = (second) => new Date(second * 1000);

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  let theirs;
  // Does croner name our first differing instant itself, when asked from the second before it?
  let contradicts = false;
  try {
    const job = new Cron(asked.cron, {
      timezone: asked.zone,
      alternativeWeekdays: asked.quartz,
      paused: true,
    });
    theirs = job.nextRuns(asked.count, date(asked.after)).map((found) => found.getTime() / 1000);
    const first = asked.instants.findIndex((instant, index) => instant !== theirs[index]);
    if (first >= 0) {
      const ours = asked.instants[first];
      contradicts = job.nextRun(date(ours - 1))?.getTime() === ours * 1000;
    }
  } catch (error) {
    theirs = `refused: ${error.message}`;
  }
  process.stdout.write(JSON.stringify({ ...asked, theirs, contradicts }) + "\n");
}
