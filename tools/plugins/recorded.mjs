// A reporter for Node's tests that records the beginning and the end of each test, so that the
// record survives if the run is killed. The lines have the format of recorded.py.

import { basename } from 'node:path';

const BEGINNINGS = new Set(['test:dequeue', 'test:start']);
const OUTCOMES = new Set(['test:complete', 'test:pass', 'test:fail']);

export default async function* record(events) {
  const [began, ended, failed] = [new Set(), new Set(), new Set()];
  const line = (event, what) => `${JSON.stringify({ [event]: what })}\n`;
  for await (const { type, data } of events) {
    // The result of a test includes the tests inside it.
    if (!(BEGINNINGS.has(type) || OUTCOMES.has(type)) || data.nesting !== 0) continue;
    const { name, file } = data;
    const isFile = name === file;
    const test = isFile ? basename(file) : `${basename(file)}::${name}`;
    if (BEGINNINGS.has(type) && !isFile && !began.has(test)) {
      began.add(test);
      yield line('began', test);
    } else if (OUTCOMES.has(type) && !ended.has(test)) {
      ended.add(test);
      // `test:complete` arrives in the order in which tests end, but not every version of Node
      // sends it.
      const passed = type === 'test:complete' ? data.details.passed : type === 'test:pass';
      if (!passed) {
        // A file fails because of its tests, unless it could not be read.
        if (!isFile || !failed.has(file)) yield line('failed', test);
        failed.add(file);
      } else if (!isFile) {
        yield line(data.skip === undefined ? 'passed' : 'skipped', test);
      }
      if (!isFile) yield line('ended', test);
    }
  }
}
