// The snippets in the README and in the documentation for Node are working programs.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { home, run, scenario } from './support.mjs';

const pages = ['README.md', '../docs/node.md', '../docs/testing.md'].map((page) => readFileSync(join(home, page), 'utf8'));
const snippets = pages.flatMap((page) => [...page.matchAll(/```js\n(.*?)```/gs)]);

scenario('the pages have snippets', () => {
  assert.ok(snippets.length >= 6);
});

for (const [index, [, snippet]] of snippets.entries()) {
  scenario(`snippet ${index + 1}`, async () => {
    const { code, stdout, stderr } = await run(snippet);
    assert.deepEqual([code, stderr], [0, ''], stdout);
    // If the snippet contains tests, all of them must have run.
    const tests = snippet.match(/^test\(/gm)?.length;
    if (tests !== undefined) assert.match(stdout, new RegExp(`^# pass ${tests}$`, 'm'));
  });
}
