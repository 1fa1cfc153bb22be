// wine 8 lacks this function. Like the real one, this one counts in units of 100 ns.
#include <windows.h>

__declspec(dllexport) void WINAPI QueryInterruptTimePrecise(unsigned long long *time) {
  LARGE_INTEGER count, frequency;
  QueryPerformanceCounter(&count);
  QueryPerformanceFrequency(&frequency);
  *time = (unsigned long long)((long double)count.QuadPart * 1e7L / frequency.QuadPart);
}
