// As in index.mjs: one build for both module systems.
import opentelemetry from './dist/tracing/opentelemetry.js';

export const { instrument, observe, traced } = opentelemetry;
