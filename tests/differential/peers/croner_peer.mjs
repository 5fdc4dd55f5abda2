// Asks croner for W, #, L and weekdays counted as Quartz does. Reads the generator's lines on
// stdin and writes each with croner's answer (`theirs`); croner_report.py compares.
import { createInterface } from "node:readline";
import { Cron } from "croner";

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  let theirs;
  try {
    const job = new Cron(asked.cron, {
      timezone: asked.zone,
      alternativeWeekdays: asked.quartz,
      paused: true,
    });
    const from = new Date(asked.after * 1000);
    theirs = job.nextRuns(asked.count, from).map((date) => date.getTime() / 1000);
  } catch (error) {
    theirs = `refused: ${error.message}`;
  }
  process.stdout.write(JSON.stringify({ ...asked, theirs }) + "\n");
}
