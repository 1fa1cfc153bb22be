// The README's snippets are programs that work.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { home, run, scenario } from './support.mjs';

const snippets = [...readFileSync(join(home, 'README.md'), 'utf8').matchAll(/```js\n(.*?)```/gs)];

scenario('the README has snippets', () => {
  assert.ok(snippets.length >= 4);
});

for (const [index, [, snippet]] of snippets.entries()) {
  scenario(`README snippet ${index + 1}`, async () => {
    const { code, stderr } = await run(snippet);
    assert.deepEqual([code, stderr], [0, '']);
  });
}
