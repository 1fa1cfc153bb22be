import eslint from '@eslint/js';
import { defineConfig } from 'eslint/config';
import typescript from 'typescript-eslint';

const NODE_GLOBALS = [
  'AbortController',
  'AbortSignal',
  'Buffer',
  'URL',
  'clearTimeout',
  'console',
  'performance',
  'process',
  'setTimeout',
  'structuredClone',
];

export default defineConfig(
  { ignores: ['dist/', 'addon/', 'node_modules/', 'test/types/'] },
  eslint.configs.recommended,
  {
    files: ['src/**/*.ts'],
    extends: [typescript.configs.strictTypeChecked, typescript.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
    },
  },
  {
    // The examples are in a directory next to this package.
    files: ['test/**/*.mjs', 'examples/**/*.mjs'],
    languageOptions: { globals: Object.fromEntries(NODE_GLOBALS.map((name) => [name, 'readonly'])) },
  },
);
