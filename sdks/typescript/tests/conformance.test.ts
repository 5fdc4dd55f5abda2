/** Every scenario of sdks/conformance. */

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { parse } from "yaml";
import { Scenario } from "./scenario.js";
import { Duly, REPOSITORY } from "./server.js";

interface Told {
  name: string;
  steps: Record<string, unknown>[];
}

const folder = join(REPOSITORY, "sdks/conformance");
const files = readdirSync(folder).filter((name) => name.endsWith(".yaml")).sort();

describe("conformance", () => {
  let server: Duly;
  before(async () => {
    server = await Duly.start();
  });
  after(() => server.stop());
  for (const file of files) {
    for (const told of parse(readFileSync(join(folder, file), "utf8")) as Told[]) {
      test(told.name, { timeout: 60_000 }, () => Scenario.play(server.url, told.steps));
    }
  }
});
