import { resolve } from 'node:path';

export default {
  mode: 'production',
  target: 'node',
  entry: '../app/main.mjs',
  output: { path: resolve('embedded'), filename: 'main.cjs' },
  module: { rules: [{ test: /\.node$/, loader: 'node-loader' }] },
  node: { __dirname: false },
  // The addon's loader tries the files of all platforms, and only one of them exists.
  ignoreWarnings: [{ module: /zklock.addon/ }],
};
