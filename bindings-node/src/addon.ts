/** Loads the native half before anything else does, and says what to do where it cannot be loaded. */

/**
 * For which platforms there are addons, as Node and napi name them; `package.json` has the same list under `napi`, and so
 * has `bin/zklock`. None for Windows: the engine is written for POSIX systems.
 */
const SUPPORTED = ['darwin-arm64', 'darwin-x64', 'linux-arm64-gnu', 'linux-arm64-musl', 'linux-x64-gnu', 'linux-x64-musl'];

interface Report {
  excludeNetwork?: boolean;
  getReport(): { header?: { glibcVersionRuntime?: string } };
}

/** This platform, as napi names it. */
function platform(): string {
  const { platform, arch } = process;
  // Typed as if every runtime had it.
  const report = process.report as unknown as Report | undefined;
  if (platform !== 'linux' || report === undefined) return `${platform}-${arch}`;
  const { excludeNetwork } = report;
  // Else the report looks up the names of all peers.
  report.excludeNetwork = true;
  const { header } = report.getReport();
  Object.assign(report, { excludeNetwork });
  return `${platform}-${arch}-${header?.glibcVersionRuntime === undefined ? 'musl' : 'gnu'}`;
}

/** Why the addon that is there does not load, if one is: what the loader of the operating system says. */
function refusal(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    // What the generated loader says itself of files and packages that it tried in vain, or can try none of.
    if (!/^(Cannot find|Failed to load native binding|Unsupported|Dynamic require|require is not defined)/.test(cause.message)) return cause.message;
  }
  return undefined;
}

/** How to start the process so that it may load addons, if it may not: by the message, as the generated loader drops codes. */
function allowing(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const [flag] = /--allow-[a-z]+/.exec(cause.message) ?? [];
    if (flag !== undefined) return `${'Deno' in globalThis ? 'Deno' : 'Node'} with ${flag}`;
    if (!cause.message.includes('loading addons is disabled')) continue;
    return 'permission' in process ? 'Node with --allow-addons' : 'Node without --no-addons';
  }
  return undefined;
}

function explained(error: unknown): string {
  const start = allowing(error);
  if (start !== undefined) {
    return `the native addon of zklock cannot be loaded, because this process may not load addons: start ${start}.`;
  }
  const here = platform();
  const supported = `Supported platforms: ${SUPPORTED.join(', ')}.`;
  const build = 'In a clone of its repository, `npm ci && npm run build` in bindings-node builds one.';
  const refused = refusal(error);
  if (refused !== undefined) {
    return `the native addon of zklock for ${here} cannot be loaded: ${refused}. Install zklock again on this machine. ${build}`;
  }
  if (!SUPPORTED.includes(here)) return `zklock has no native addon for this platform, ${here}. ${supported} ${build}`;
  return (
    `the native addon of zklock for ${here} is missing. Install zklock again on this machine, without --omit=optional, ` +
    'rather than copy node_modules from another platform; in a bundler, mark zklock as external, or bundle `.node` files ' +
    `as docs/bundlers.md says. ${build} ${supported}`
  );
}

// In a function of its own, because bundlers leave a `require` within `try` as it is, and would leave out what it names.
function load(): void {
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- an import cannot be caught
  require('../addon');
}

try {
  load();
} catch (cause) {
  // Not one of the package's classes: whoever catches this has got none of them.
  throw Object.assign(new Error(explained(cause), { cause }), { code: 'ADDON_MISSING' });
}
