export * from './dist/opentelemetry.js';
