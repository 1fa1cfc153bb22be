module.exports = {
  testMatch: ['**/fake.test.js'],
  testTimeout: 60000,
  fakeTimers: { enableGlobally: true },
};
