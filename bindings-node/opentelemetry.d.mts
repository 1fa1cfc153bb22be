export * from './dist/tracing/opentelemetry.js';
