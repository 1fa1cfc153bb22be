// A reporter for Node's tests: writes down each test when it begins and when it ends, for a run that may be killed. The
// lines are those of recorded.py.

import { basename } from 'node:path';

const BEGINNINGS = new Set(['test:dequeue', 'test:start']);
const OUTCOMES = new Set(['test:complete', 'test:pass', 'test:fail']);

export default async function* record(events) {
  const [began, ended, failed] = [new Set(), new Set(), new Set()];
  const line = (event, what) => `${JSON.stringify({ [event]: what })}\n`;
  for await (const { type, data } of events) {
    // A test is as good as those inside it.
    if (!(BEGINNINGS.has(type) || OUTCOMES.has(type)) || data.nesting !== 0) continue;
    const { name, file } = data;
    const isFile = name === file;
    const test = isFile ? basename(file) : `${basename(file)}::${name}`;
    if (BEGINNINGS.has(type) && !isFile && !began.has(test)) {
      began.add(test);
      yield line('began', test);
    } else if (OUTCOMES.has(type) && !ended.has(test)) {
      ended.add(test);
      // The first is told in the order in which tests end, but not by every version of Node.
      const passed = type === 'test:complete' ? data.details.passed : type === 'test:pass';
      if (!passed) {
        // A file is failed by its tests, unless it could not be read.
        if (!isFile || !failed.has(file)) yield line('failed', test);
        failed.add(file);
      } else if (!isFile) {
        yield line(data.skip === undefined ? 'passed' : 'skipped', test);
      }
      if (!isFile) yield line('ended', test);
    }
  }
}
