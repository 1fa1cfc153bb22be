// Every public class, method and function has an example in its documentation, and the examples
// work as documented.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { runInThisContext } from 'node:vm';

import { register } from 'prom-client';
import * as zklock from 'zklock';
import { Client, Election, Mutex } from 'zklock';
import * as opentelemetry from 'zklock/opentelemetry';
import * as prometheus from 'zklock/prometheus';
import { Server } from 'zklock/testing';

import { freshPath, home, hosts, scenario } from './support.mjs';

const ts = createRequire(import.meta.url)('typescript');
const TESTING = 'testing.d.ts';

/**
 * Returns the name and the examples of each class, method and function, read from an entry's
 * declarations.
 */
function documented(file) {
  const entry = join(home, 'dist', file);
  const program = ts.createProgram([entry], { module: ts.ModuleKind.Node16, target: ts.ScriptTarget.ES2022, types: ['node'] });
  const checker = program.getTypeChecker();
  const found = new Map();
  const add = (name, symbol) => {
    const tags = symbol.getJsDocTags(checker).filter((tag) => tag.name === 'example');
    // The key is the declaration, because several classes can inherit the same method.
    found.set(symbol.declarations[0], { name, examples: tags.map((tag) => ts.displayPartsToString(tag.text)) });
  };
  const isOurs = (symbol) => symbol.declarations?.[0].getSourceFile().fileName.startsWith(join(home, 'dist')) ?? false;
  for (const exported of checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(entry)))) {
    const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
    if (symbol.flags & ts.SymbolFlags.Function) add(symbol.name, symbol);
    if (!(symbol.flags & ts.SymbolFlags.Class)) continue;
    add(symbol.name, symbol);
    const types = [checker.getDeclaredTypeOfSymbol(symbol), checker.getTypeOfSymbol(symbol)];
    for (const member of types.flatMap((type) => type.getProperties()).filter(isOurs)) {
      const owner = member.declarations[0].parent.name?.text ?? symbol.name;
      if (member.flags & ts.SymbolFlags.Method) add(`${owner}.${member.name.replace(/^__@|@\d+$/g, '')}`, member);
    }
  }
  return [...found.values()];
}

const ENTRIES = ['index.d.ts', 'tracing/opentelemetry.d.ts', 'prometheus.d.ts', TESTING];

const all = ENTRIES.flatMap((file) => documented(file).map((found) => ({ ...found, file })));

scenario('every public class, method and function has an example', () => {
  const names = all.map(({ name }) => name);
  for (const name of ['Client', 'Client.connect', 'Lock.using', 'Leases.release', 'Lease.asyncDispose', 'Transaction.check', 'on', 'Server.start', 'Collector', 'observe', 'traced', 'instrument']) {
    assert.ok(names.includes(name), `${name} was not found`);
  }
  assert.deepEqual(
    all.filter(({ examples }) => examples.length === 0).map(({ name }) => name),
    [],
  );
});

/**
 * Runs an example with the names that its entry's documentation defines. Returns the printed
 * output.
 */
async function run(example, more) {
  const printed = [];
  const print = (...values) => printed.push(values.map(String).join(' '));
  const client = await Client.connect();
  const mutex = new Mutex(client, '/locks/report');
  const election = new Election(client, '/elections/scheduler', { id: 'scheduler-1' });
  const names = { ...zklock, ...opentelemetry, ...prometheus, register, ...more, election, console: { log: print, error: print, warn: print }, client, mutex };
  names.lease = await new Mutex(client, '/locks/held').acquire();
  // The code is compiled because some supported Node versions do not have `await using`.
  const { outputText } = ts.transpileModule(`(async ({ ${Object.keys(names).join(', ')} }) => { { ${example}\n } })`, {
    compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.CommonJS },
  });
  try {
    await runInThisContext(outputText)(names);
  } finally {
    register.clear();
    await client.close();
  }
  return printed;
}

for (const { name, examples, file } of all) {
  for (const example of examples) {
    scenario(`example of ${name}`, async (t) => {
      const server = file === TESTING ? await Server.start() : undefined;
      process.env.ZKLOCK_HOSTS = server?.hosts ?? `${hosts}${freshPath()}`;
      t.after(async () => {
        delete process.env.ZKLOCK_HOSTS;
        await server?.stop();
      });
      const printed = await run(example, server && { Server, server });
      const promised = [...example.matchAll(/console\.\w+\(.*\/\/ (.*)$/gm)].map(([, output]) => output);
      if (promised.length > 0) assert.deepEqual(printed, promised);
    });
  }
}
