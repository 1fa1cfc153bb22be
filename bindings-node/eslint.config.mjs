import eslint from '@eslint/js';
import { defineConfig } from 'eslint/config';
import typescript from 'typescript-eslint';

export default defineConfig(
  { ignores: ['dist/', 'native/', 'node_modules/', 'test/types/'] },
  eslint.configs.recommended,
  {
    files: ['src/**/*.ts'],
    extends: [typescript.configs.strictTypeChecked, typescript.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
    },
  },
  {
    files: ['test/**/*.mjs', 'test/**/*.cjs'],
    languageOptions: {
      globals: Object.fromEntries(
        ['AbortController', 'AbortSignal', 'console', 'process', 'setImmediate', 'setTimeout', 'clearTimeout', 'URL', 'require', 'module', '__dirname', 'globalThis', 'WeakRef'].map(
          (name) => [name, 'readonly'],
        ),
      ),
    },
  },
);
