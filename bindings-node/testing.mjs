// As in index.mjs: one build for both module systems.
import testing from './dist/testing.js';

export const { Server } = testing;
