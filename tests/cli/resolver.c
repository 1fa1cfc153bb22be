/* Preloaded into a program, keeps it waiting for RESOLVER_PAUSE seconds for the address of any name. */
#include <netdb.h>
#include <stdlib.h>
#include <unistd.h>

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    const char *pause = getenv("RESOLVER_PAUSE");
    (void)node, (void)service, (void)hints, (void)found;
    if (pause) sleep((unsigned)atoi(pause));
    return EAI_AGAIN;
}
