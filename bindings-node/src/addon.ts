/** Loads the native addon before any other module, and explains what to do if it cannot be loaded. */

/**
 * Platforms with a prebuilt addon, by the names that napi uses. Keep the same list in `package.json` (under `napi`) and
 * in `bin/zklock`.
 */
const SUPPORTED = [
  'darwin-arm64',
  'darwin-x64',
  'linux-arm64-gnu',
  'linux-arm64-musl',
  'linux-x64-gnu',
  'linux-x64-musl',
  'win32-x64-msvc',
];

interface Report {
  excludeNetwork?: boolean;
  getReport(): { header?: { glibcVersionRuntime?: string } };
}

/** Returns the napi name of this platform. */
function platform(): string {
  const { platform, arch } = process;
  // The type declares `process.report` as always present, but some runtimes lack it.
  const report = process.report as unknown as Report | undefined;
  if (platform === 'win32') return `win32-${arch}-msvc`;
  if (platform !== 'linux' || report === undefined) return `${platform}-${arch}`;
  const { excludeNetwork } = report;
  // Without this setting, the report would look up the host names of all network peers, which can take long.
  report.excludeNetwork = true;
  const { header } = report.getReport();
  Object.assign(report, { excludeNetwork });
  return `${platform}-${arch}-${header?.glibcVersionRuntime === undefined ? 'musl' : 'gnu'}`;
}

/** Returns the error message of the operating system's loader if an addon is present but does not load. */
function refusal(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    // Skip the generated loader's messages about missing files and packages, and about unsupported platforms.
    if (!/^(Cannot find|Failed to load native binding|Unsupported|Dynamic require|require is not defined)/.test(cause.message)) return cause.message;
  }
  return undefined;
}

/**
 * Returns how to start a process that is permitted to load addons, if this process is not. Checks the message because
 * the generated loader drops error codes.
 */
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
    return `the native addon of zklock cannot be loaded, because this process is not permitted to load addons: start ${start}.`;
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

// A separate function, because bundlers ignore a `require` inside `try`, and would leave its module out of the bundle.
function load(): void {
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- an import cannot be caught
  require('../addon');
}

try {
  load();
} catch (cause) {
  // Throw a plain `Error`, because the package's error classes are not available to a caller whose import failed.
  throw Object.assign(new Error(explained(cause), { cause }), { code: 'ADDON_MISSING' });
}
