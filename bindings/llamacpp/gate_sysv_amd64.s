//go:build amd64 && !windows

#include "textflag.h"

// bool evalGate(struct ggml_tensor *t, bool ask, struct gate *g), System V ABI:
// DI = t, SI = ask, DX = g. See gate.go for what it decides. It touches
// caller-saved registers only and never enters Go unless it has to.
TEXT ·evalGate(SB), NOSPLIT|NOFRAME, $0-0
	CMPB 0(DX), $0
	JEQ  no
	TESTB SI, SI
	JEQ  run
	MOVQ 256(DI), AX
	MOVQ $0x0000ffffffffffff, CX
	ANDQ CX, AX
	MOVQ $0x00002d74756f5f6c, CX // "l_out-"
	CMPQ AX, CX
	JNE  no
	ADDQ $262, DI
	XORL AX, AX
	MOVBLZX (DI), CX
	SUBL $48, CX
	CMPL CX, $9
	JHI  no
digit:
	LEAL (AX)(AX*4), AX
	LEAL (CX)(AX*2), AX
	CMPL AX, $1023
	JHI  no
	INCQ DI
	MOVBLZX (DI), CX
	TESTB CX, CX
	JEQ  found
	SUBL $48, CX
	CMPL CX, $9
	JLS  digit
	JMP  no
found:
	MOVL AX, CX
	SHRQ $6, AX
	MOVQ 16(DX)(AX*8), AX
	SHRQ CX, AX
	ANDL $1, AX
	RET
no:
	XORL AX, AX
	RET
run:
	MOVQ DI, 144(DX)
	PUSHQ DX // kept over the call, and aligns the stack
	MOVQ 8(DX), AX
	CALL AX
	POPQ DX
	MOVBLZX 152(DX), AX
	RET

DATA ·evalGateAddr(SB)/8, $·evalGate(SB)
GLOBL ·evalGateAddr(SB), RODATA|NOPTR, $8
