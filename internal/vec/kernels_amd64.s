#include "textflag.h"

// SSE only, which every amd64 has. The order of the sums is that of the Go
// versions, element by element, so that the results are equal to the bit.

// func dotLanes(lanes *[16]float32, a, b []float32)
TEXT ·dotLanes(SB), NOSPLIT, $0-56
	MOVQ lanes+0(FP), DI
	MOVQ a_base+8(FP), SI
	MOVQ a_len+16(FP), CX
	MOVQ b_base+32(FP), DX
	MOVUPS (DI), X0
	MOVUPS 16(DI), X1
	MOVUPS 32(DI), X2
	MOVUPS 48(DI), X3
	SHRQ $4, CX
	JZ   done

loop:
	MOVUPS (SI), X4
	MOVUPS 16(SI), X5
	MOVUPS 32(SI), X6
	MOVUPS 48(SI), X7
	MOVUPS (DX), X8
	MOVUPS 16(DX), X9
	MOVUPS 32(DX), X10
	MOVUPS 48(DX), X11
	MULPS  X8, X4
	MULPS  X9, X5
	MULPS  X10, X6
	MULPS  X11, X7
	ADDPS  X4, X0
	ADDPS  X5, X1
	ADDPS  X6, X2
	ADDPS  X7, X3
	ADDQ   $64, SI
	ADDQ   $64, DX
	DECQ   CX
	JNZ    loop

done:
	MOVUPS X0, (DI)
	MOVUPS X1, 16(DI)
	MOVUPS X2, 32(DI)
	MOVUPS X3, 48(DI)
	RET

// func addScaled(a []float32, k float32, b []float32)
TEXT ·addScaled(SB), NOSPLIT, $0-56
	MOVQ  a_base+0(FP), SI
	MOVQ  a_len+8(FP), CX
	MOVSS k+24(FP), X0
	MOVQ  b_base+32(FP), DX
	SHUFPS $0, X0, X0
	SHRQ  $3, CX
	JZ    end

next:
	MOVUPS (DX), X1
	MOVUPS 16(DX), X2
	MOVUPS (SI), X3
	MOVUPS 16(SI), X4
	MULPS  X0, X1
	MULPS  X0, X2
	ADDPS  X1, X3
	ADDPS  X2, X4
	MOVUPS X3, (SI)
	MOVUPS X4, 16(SI)
	ADDQ   $32, SI
	ADDQ   $32, DX
	DECQ   CX
	JNZ    next

end:
	RET

// func addScaled4(a, b []float32, k *[4]float32, rows *[4]int)
TEXT ·addScaled4(SB), NOSPLIT, $0-64
	MOVQ   a_base+0(FP), DI
	MOVQ   a_len+8(FP), CX
	MOVQ   b_base+24(FP), SI
	MOVQ   k+48(FP), AX
	MOVQ   rows+56(FP), BX
	MOVSS  (AX), X0
	MOVSS  4(AX), X1
	MOVSS  8(AX), X2
	MOVSS  12(AX), X3
	SHUFPS $0, X0, X0
	SHUFPS $0, X1, X1
	SHUFPS $0, X2, X2
	SHUFPS $0, X3, X3
	MOVQ   (BX), R8
	MOVQ   8(BX), R9
	MOVQ   16(BX), R10
	MOVQ   24(BX), R11
	LEAQ   (SI)(R8*4), R8
	LEAQ   (SI)(R9*4), R9
	LEAQ   (SI)(R10*4), R10
	LEAQ   (SI)(R11*4), R11
	XORQ   DX, DX
	SHRQ   $3, CX
	JZ     over

more:
	MOVUPS (DI)(DX*1), X4
	MOVUPS 16(DI)(DX*1), X5
	MOVUPS (R8)(DX*1), X6
	MOVUPS 16(R8)(DX*1), X7
	MOVUPS (R9)(DX*1), X8
	MOVUPS 16(R9)(DX*1), X9
	MOVUPS (R10)(DX*1), X10
	MOVUPS 16(R10)(DX*1), X11
	MOVUPS (R11)(DX*1), X12
	MOVUPS 16(R11)(DX*1), X13
	MULPS  X0, X6
	MULPS  X0, X7
	MULPS  X1, X8
	MULPS  X1, X9
	MULPS  X2, X10
	MULPS  X2, X11
	MULPS  X3, X12
	MULPS  X3, X13
	ADDPS  X6, X4
	ADDPS  X7, X5
	ADDPS  X8, X4
	ADDPS  X9, X5
	ADDPS  X10, X4
	ADDPS  X11, X5
	ADDPS  X12, X4
	ADDPS  X13, X5
	MOVUPS X4, (DI)(DX*1)
	MOVUPS X5, 16(DI)(DX*1)
	ADDQ   $32, DX
	DECQ   CX
	JNZ    more

over:
	RET
