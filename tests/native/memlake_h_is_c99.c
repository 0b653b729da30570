/* The header as a C compiler reads it. */
#include "memlake.h"

#if !defined(__STDC_VERSION__) || __STDC_VERSION__ < 199901L
#error "compile this as C99 or newer"
#endif

int memlake_h_version(void);
int memlake_h_version(void) { return MEMLAKE_ABI_VERSION; }
