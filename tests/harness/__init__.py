"""The test harness: real servers, a meddling proxy, workers in every language, and the checker."""
