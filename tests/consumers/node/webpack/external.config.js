import { resolve } from 'node:path';

export default {
  mode: 'production',
  target: 'node',
  entry: '../app/main.mjs',
  output: { path: resolve('external'), filename: 'main.cjs' },
  externals: { zklock: 'commonjs zklock' },
};
