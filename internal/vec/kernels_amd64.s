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
