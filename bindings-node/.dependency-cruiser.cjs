// Arrows between the files of the package run one way.
module.exports = {
  forbidden: [{ name: 'no-circle', severity: 'error', from: {}, to: { circular: true } }],
  options: { tsConfig: { fileName: 'tsconfig.json' }, tsPreCompilationDeps: true },
};
