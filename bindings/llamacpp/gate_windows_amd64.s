#include "textflag.h"

// bool evalGate(struct ggml_tensor *t, bool ask, struct gate *g), Windows ABI:
// CX = t, DX = ask, R8 = g. See gate.go for what it decides. It touches
// volatile registers only and never enters Go unless it has to.
TEXT ·evalGate(SB), NOSPLIT|NOFRAME, $0-0
	CMPB 0(R8), $0
	JEQ  no
	TESTB DX, DX
	JEQ  run
	MOVQ 256(CX), AX
	MOVQ $0x0000ffffffffffff, R9
	ANDQ R9, AX
	MOVQ $0x00002d74756f5f6c, R9 // "l_out-"
	CMPQ AX, R9
	JNE  no
	LEAQ 262(CX), R10
	XORL AX, AX
	MOVBLZX (R10), CX
	SUBL $48, CX
	CMPL CX, $9
	JHI  no
digit:
	LEAL (AX)(AX*4), AX
	LEAL (CX)(AX*2), AX
	CMPL AX, $1023
	JHI  no
	INCQ R10
	MOVBLZX (R10), CX
	TESTB CX, CX
	JEQ  found
	SUBL $48, CX
	CMPL CX, $9
	JLS  digit
	JMP  no
found:
	MOVL AX, CX
	SHRQ $6, AX
	MOVQ 16(R8)(AX*8), AX
	SHRQ CX, AX
	ANDL $1, AX
	RET
no:
	XORL AX, AX
	RET
run:
	MOVQ CX, 144(R8)
	SUBQ $40, SP // 32 bytes that the callee may use, and alignment
	MOVQ R8, 32(SP)
	MOVQ 8(R8), AX
	CALL AX
	MOVQ 32(SP), R8
	ADDQ $40, SP
	MOVBLZX 152(R8), AX
	RET

DATA ·evalGateAddr(SB)/8, $·evalGate(SB)
GLOBL ·evalGateAddr(SB), RODATA|NOPTR, $8
