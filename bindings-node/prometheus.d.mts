export * from './dist/prometheus.js';
