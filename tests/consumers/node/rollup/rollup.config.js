import commonjs from '@rollup/plugin-commonjs';
import resolve from '@rollup/plugin-node-resolve';

export default {
  input: '../app/main.mjs',
  output: { file: 'external/main.mjs', format: 'es' },
  external: ['zklock', /^node:/],
  plugins: [resolve({ preferBuiltins: true }), commonjs()],
};
