// Only the exporters load the optional packages.

import assert from 'node:assert/strict';

import { run, scenario } from './support.mjs';

// CommonJS modules that ES modules import are in the same cache.
const LOADED = `
  const files = Object.keys(createRequire(process.cwd() + '/x').cache);
  const optional = files.flatMap((file) => /node_modules\\/(@opentelemetry|prom-client)\\//.exec(file)?.[1] ?? []);
  console.log([...new Set(optional)].sort().join(' ') || 'none', files.some((file) => file.endsWith('/dist/index.js')));
`;
const FORMS = ['await import', "createRequire(process.cwd() + '/x')"];

for (const [entries, loads] of [
  [['zklock', 'zklock/testing'], 'none'],
  [['zklock', 'zklock/opentelemetry'], '@opentelemetry'],
  // `prom-client` itself loads `@opentelemetry` for exemplars.
  [['zklock', 'zklock/prometheus'], '@opentelemetry prom-client'],
]) {
  scenario(`${entries.join(' and ')} load of the optional packages: ${loads}`, async () => {
    for (const form of FORMS) {
      const source = ["import { createRequire } from 'node:module';", ...entries.map((entry) => `${form}('${entry}');`), LOADED];
      const { code, stdout, stderr } = await run(source.join('\n'));
      assert.deepEqual([code, stderr], [0, '']);
      assert.equal(stdout, `${loads} true\n`, form);
    }
  });
}
