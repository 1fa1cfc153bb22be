// Adds the loader and the type declarations to the addon that tools/parts.mk has compiled. `napi
// build` would do this too, but it compiles in its own directory, so the Rust and Python tests
// would need a second build.
//
//   node describe.mjs TYPES LIBRARY
//
// TYPES is the directory with the types that the macros wrote. LIBRARY is the compiled library.

import { execFileSync } from 'node:child_process';
import { copyFile, mkdir, rename, writeFile } from 'node:fs/promises';
import { argv } from 'node:process';

import { generateTypeDef, parseTriple, readNapiConfig, writeJsBinding } from '@napi-rs/cli';

const [typeDefDir, library] = argv.slice(2);
const outputDir = 'addon';

const host = execFileSync('rustc', ['-vV'], { encoding: 'utf8' }).match(/^host: (.*)$/m)[1];
const { binaryName, packageName, packageJson } = await readNapiConfig('package.json');
const { exports: idents, dts } = await generateTypeDef({ typeDefDir, cwd: '.', declareBindingTarget: true });

await mkdir(outputDir, { recursive: true });
const addon = `${outputDir}/${binaryName}.${parseTriple(host).platformArchABI}.node`;
// A process might have loaded the old addon, so rename the new file instead of overwriting the old
// one.
await copyFile(library, `${addon}.new`);
await rename(`${addon}.new`, addon);
await writeFile(`${outputDir}/index.d.ts`, dts);
await writeJsBinding({ platform: true, idents, binaryName, packageName, version: packageJson.version, outputDir });
