#include "textflag.h"

// bool evalGate(struct ggml_tensor *t, bool ask, struct gate *g), AAPCS64:
// R0 = t, R1 = ask, R2 = g. See gate.go for what it decides. It touches
// R0-R9 only and never enters Go unless it has to.
TEXT ·evalGate(SB), NOSPLIT|NOFRAME, $0-0
	MOVBU (R2), R3
	CBZ   R3, no
	AND   $0xff, R1, R3
	CBZ   R3, run
	MOVD  256(R0), R3
	MOVD  $0x0000ffffffffffff, R4
	AND   R4, R3, R3
	MOVD  $0x00002d74756f5f6c, R4 // "l_out-"
	CMP   R4, R3
	BNE   no
	ADD   $262, R0, R5
	MOVD  $0, R6
	MOVBU (R5), R7
	SUB   $48, R7, R7
	CMP   $9, R7
	BHI   no
digit:
	ADD   R6<<2, R6, R8
	ADD   R8<<1, R7, R6
	CMP   $1023, R6
	BHI   no
	ADD   $1, R5, R5
	MOVBU (R5), R7
	CBZ   R7, found
	SUB   $48, R7, R7
	CMP   $9, R7
	BLS   digit
	B     no
found:
	LSR   $6, R6, R7
	ADD   $16, R2, R8
	MOVD  (R8)(R7<<3), R9
	LSR   R6, R9, R9
	AND   $1, R9, R0
	RET
no:
	MOVD  $0, R0
	RET
run:
	MOVD R0, 144(R2)
	SUB  $16, RSP
	STP  (R2, R30), (RSP)
	MOVD 8(R2), R9
	CALL (R9)
	LDP  (RSP), (R2, R30)
	ADD  $16, RSP
	MOVBU 152(R2), R0
	RET

DATA ·evalGateAddr(SB)/8, $·evalGate(SB)
GLOBL ·evalGateAddr(SB), RODATA|NOPTR, $8
